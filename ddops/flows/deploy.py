"""Make a box serve what its inventory says: apply the plan, wait for the gate, ask one question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ddops import __version__
from ddops.errors import ServiceError
from ddops.facts.look import base_url
from ddops.flows import gate, smoke
from ddops.flows.plan import Plan, Rendered
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command, Extract, Fetch, Put, Run
from ddops.spec.deployment import Deployment
from ddops.spec.generation import Generation
from ddops.spec.observed import Service
from ddops.steps import service, unit


@dataclass(frozen=True)
class Deployed:
    base_url: str
    pid: int
    changed: int  # commands applied
    answer: smoke.Answer


def needs_nothing(plan: Plan) -> bool:
    """Everything is as it should be, and the service is ready."""
    return not plan.commands and plan.seen.health.ready


def deploy(site: Site, plan: Plan, voice: Voice) -> Deployed:
    """Raises; then what was deployed before runs again, and what was fetched stays."""
    wish, before = site.box.deployment, site.generation()
    for command in plan.commands:
        perform(site, command, voice)
    try:
        seen = gate.wait(site, wish, voice)
        answer = smoke.ask(site, wish)
    except ServiceError as verdict:
        raise _put_back(site, before, verdict, voice) from None
    assert seen.pid is not None, "a service that passed its gate has a process"
    prove(site, wish, plan.rendered)
    url = base_url(wish.serving)
    return Deployed(base_url=url, pid=seen.pid, changed=len(plan.commands), answer=answer)


def perform(site: Site, command: Command, voice: Voice) -> None:
    with voice.step(title(command), of="bytes" if _has_bytes(command) else "items") as progress:
        site.host.apply(command, progress)


def title(command: Command) -> str:
    match command:
        case Run():
            return command.title or command.line
        case Put():
            return f"write {command.path}"
        case Fetch():
            return f"fetch {command.path.rsplit('/', 1)[-1]}"
        case Extract():
            return f"extract {command.path.rsplit('/', 1)[-1]}"


def prove(site: Site, deployment: Deployment, rendered: Rendered) -> None:
    """Written last: a deploy that was cut short is not mistaken for a finished one."""
    note = Generation(
        deployment=deployment,
        unit=rendered.unit,
        unit_sha256=rendered.unit_sha256,
        env_sha256=rendered.env_sha256,
        deployed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ddops_version=__version__,
    )
    text = note.model_dump_json(indent=2)
    site.host.apply(Put(path=site.place.generation, text=text, why="what was proven to work"))


def _has_bytes(command: Command) -> bool:
    return isinstance(command, Fetch | Extract)


def _put_back(
    site: Site, before: Generation | None, verdict: ServiceError, voice: Voice
) -> ServiceError:
    """A failed deployment does not stay: it gives way to the one before it, or is stopped."""
    seen, place = site.service(), site.place
    if before is None:
        for command in service.stop(seen, place, "it did not pass its gate"):
            perform(site, command, voice)
        return verdict
    voice.warn("it did not pass its gate: putting back what was deployed before")
    for command in _previous(site, before, seen):
        perform(site, command, voice)
    try:
        gate.wait(site, before.deployment, voice)
        outcome = "what was deployed before runs again"
    except ServiceError as second:
        outcome = f"what was deployed before does not come back either: {second.subject}"
    detail = "\n".join(text for text in (verdict.detail, outcome) if text)
    return ServiceError(verdict.subject, detail=detail, hint=verdict.hint)


def _previous(site: Site, before: Generation, seen: Service) -> list[Command]:
    place = site.place
    put = Put(path=place.unit_path(seen.kind), text=before.unit, why="as before", sudo=seen.sudo)
    same = unit.sha256(before.unit) == seen.unit_sha256
    again = service.restart(seen, place, "as before")
    return again if same else [put, *again]

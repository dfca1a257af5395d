"""What has passed its gate: noted when it did, put back when its successor does not."""

from __future__ import annotations

from datetime import UTC, datetime

from ddops import __version__
from ddops.errors import DdopsError, HostError, ServiceError
from ddops.facts.look import look_environment
from ddops.flows import gate
from ddops.flows.perform import perform
from ddops.flows.plan import Plan, env_of
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Put
from ddops.spec.deployment import Deployment
from ddops.spec.generation import Generation, Generations
from ddops.spec.observed import Service
from ddops.steps import service, unit


def prove(site: Site, deployment: Deployment, plan: Plan) -> None:
    """Written last: a deploy that was cut short is not mistaken for a finished one."""
    rendered, kept = plan.rendered, site.generations()
    new = Generation(
        number=0,  # `proven` gives it its own
        deployment=deployment,
        unit=rendered.unit,
        unit_sha256=rendered.unit_sha256,
        env_sha256=rendered.env_sha256,
        environment=look_environment(site.host, site.place),
        drivers=tuple(sorted({gpu.driver for gpu in plan.seen.gpus})),
        deployed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ddops_version=__version__,
    )
    keep(site, kept.proven(new))


def keep(site: Site, generations: Generations) -> None:
    text = generations.model_dump_json(indent=2)
    site.host.apply(Put(path=site.place.generations, text=text, why="what was proven to work"))


def put_back(site: Site, seen: Service, verdict: DdopsError, voice: Voice) -> DdopsError:
    """A change that failed does not stay: it gives way to what serves by right, or is stopped.

    `seen` is the service before the change. Returns the verdict, with what became of the box.
    """
    try:
        outcome = _put_back(site, seen, voice, died=isinstance(verdict, ServiceError))
    except DdopsError as second:
        outcome = f"what was deployed before does not come back either: {second.subject}"
        if isinstance(verdict, HostError):  # the same trouble, twice
            outcome = "what was deployed before could not be put back"
    verdict.detail = "\n".join(text for text in (verdict.detail, outcome) if text) or None
    return verdict


def _put_back(site: Site, seen: Service, voice: Voice, *, died: bool) -> str | None:
    now, before = site.service(), site.generation()
    if before is None:
        for command in service.stop(now, site.place, "it did not pass its gate"):
            perform(site, command, voice)
        return None
    env = env_of(site, before.deployment)
    commands = unit.put(before.unit, env, there=now, place=site.place)
    if died or now.pid != seen.pid:
        commands += service.restart(now, site.place, "as before")
    if not commands:
        return f"generation {before.number} was not touched"
    voice.warn(f"it failed: putting back generation {before.number}")
    for command in commands:
        perform(site, command, voice)
    gate.wait(site, before.deployment, voice)
    return f"what was deployed before runs again: generation {before.number}"

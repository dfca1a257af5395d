"""Let an earlier generation serve again: its unit as it was, its weights as they lie there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddops.errors import CheckError, DdopsError, ServiceError, UsageError, WeightsError
from ddops.facts.look import look
from ddops.flows import gate, smoke
from ddops.flows.generations import keep, put_back
from ddops.flows.history import recorded
from ddops.flows.plan import check_port, env_of
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.render.unit import argv_of
from ddops.spec.command import Command, Run
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.generation import Generation, Generations
from ddops.spec.observed import Holding, Observed
from ddops.steps import service, unit, weights

_FORWARD = "put its deployment into the inventory, then `ddops deploy`"


@dataclass(frozen=True)
class Rollback:
    site: Site  # with the deployment of the generation that is wanted
    seen: Observed
    wanted: Generation
    commands: tuple[Command, ...]


def rollback_plan(site: Site, number: int | None = None) -> Rollback:
    """Nothing to do when generation `number` serves. None: the one before."""
    kept = site.generations()
    wanted = _chosen(site, kept, number)
    box = site.box.model_copy(update={"deployment": wanted.deployment})
    there = Site(site.host, box)
    seen = look(site.host, box)
    _must_have_python(site, wanted, seen)
    _must_have_weights(there, wanted, seen)
    check_port(seen)
    env = env_of(site, wanted.deployment)
    commands = unit.plan(wanted.unit, env, seen=seen, place=site.place)
    if commands or wanted.number != kept.current or not seen.health.ready:
        why = f"so that generation {wanted.number} serves"
        commands += service.restart(seen.service, site.place, why)
    return Rollback(there, seen, wanted, tuple(commands))


def rollback(planned: Rollback, voice: Voice) -> smoke.Answer | None:
    """Raises; then what served before serves again."""
    site, deployment = planned.site, planned.wanted.deployment
    with recorded(site, "rollback", planned.commands, voice) as do:
        try:
            for command in planned.commands:
                do(command)
            gate.wait(site, deployment, voice)
            answer = smoke.ask(site, deployment)
            keep(site, site.generations().model_copy(update={"current": planned.wanted.number}))
        except DdopsError as verdict:
            raise put_back(site, planned.seen.service, verdict, voice) from None
    return answer


def _chosen(site: Site, kept: Generations, number: int | None) -> Generation:
    if not kept.kept:
        raise ServiceError(
            f"nothing is deployed on box `{site.box.name}`", hint=f"`ddops deploy {site.box.name}`"
        )
    found = kept.before if number is None else kept.find(number)
    if found is None:
        what = "no earlier generation" if number is None else f"no generation {number}"
        there = ", ".join(str(one.number) for one in kept.kept)
        raise UsageError(
            f"there is {what} on box `{site.box.name}`; it keeps {there}, {kept.current} serves",
            hint=f"`ddops rollback {site.box.name} --list`",
        )
    return found


def _must_have_python(site: Site, wanted: Generation, seen: Observed) -> None:
    argv = argv_of(wanted.unit, seen.service.kind)
    if not argv:
        raise CheckError(
            f"generation {wanted.number} is no unit of {seen.service.kind}", hint=_FORWARD
        )
    there = Run(argv=("test", "-x", argv[0]), why="look for the Python of that generation")
    if not site.host.run(there).ok:
        raise CheckError(
            f"the Python of generation {wanted.number} is no longer on box `{site.box.name}`:"
            f" {argv[0]}",
            hint=_FORWARD,
        )


def _must_have_weights(site: Site, wanted: Generation, seen: Observed) -> None:
    """Nothing is fetched: going back is for when there is no time."""
    for want, holding in _weights(wanted.deployment, seen):
        if not weights.complete(want, holding):
            raise WeightsError(
                f"the weights of generation {wanted.number} are no longer whole on box"
                f" `{site.box.name}`: {want.source}",
                hint=_FORWARD,
            )


def _weights(deployment: Deployment, seen: Observed) -> Iterator[tuple[Weights, Holding]]:
    drafter = deployment.decoding.drafter
    yield deployment.model.weights, seen.model
    if isinstance(drafter, Weights) and seen.drafter:
        yield drafter, seen.drafter

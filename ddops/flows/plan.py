"""Look at a box and say, with a reason per line, what a deploy would do. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ddops.engines.base import Engine
from ddops.engines.table import ENGINES
from ddops.errors import CheckError
from ddops.facts.look import api_key, look
from ddops.facts.weights import parse_offer
from ddops.flows import model, packages
from ddops.flows.advise import Advised, Asked, advised, ask
from ddops.flows.arrival import look_landing
from ddops.flows.site import Site
from ddops.render.unit import render_env, render_unit
from ddops.spec.command import Command, Pull, Put, Run
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.layout import layout
from ddops.spec.observed import Holding, Observed
from ddops.spec.unit import Unit
from ddops.spec.verdict import Verdict
from ddops.steps import preflight, preflight_gpu, service, unit, weights


@dataclass(frozen=True)
class Rendered:
    """A deployment as text for one box."""

    unit: str
    env: str
    advised: Advised

    @property
    def unit_sha256(self) -> str:
        return unit.sha256(self.unit)

    @property
    def env_sha256(self) -> str:
        return unit.sha256(self.env)


@dataclass(frozen=True)
class Plan:
    seen: Observed
    rendered: Rendered
    packages: tuple[Run, ...]
    weights: tuple[Command, ...]
    unit: tuple[Command, ...]
    service: tuple[Command, ...]

    @property
    def commands(self) -> tuple[Command, ...]:
        return (*self.packages, *self.weights, *self.unit, *self.service)

    @property
    def bytes(self) -> int:
        """To be downloaded, as far as they are known."""
        return sum(one.size or 0 for one in self.packages) + weights.needed(list(self.weights))

    @property
    def takes_s(self) -> float:
        """A guess, for what can be guessed: downloads and packages."""
        return sum(getattr(one, "takes_s", None) or 0.0 for one in self.commands)


def plan(site: Site) -> Plan:
    """Raises `CheckError` when the box does not fit, `WeightsError` when the disk is too small."""
    seen, wish = look(site.host, site.box), site.box.deployment
    check_engine(seen, ENGINES[wish.engine])
    check_driver(wish, seen)
    check_port(seen)
    held, fetched = _weights(site, wish.model.weights, seen.model)
    seen = seen.model_copy(update={"model": held})
    if isinstance(wish.decoding.drafter, Weights) and seen.drafter:
        held, more = _weights(site, wish.decoding.drafter, seen.drafter)
        seen, fetched = seen.model_copy(update={"drafter": held}), [*fetched, *more]
    weights.check_disk(fetched, seen.system.disk_free, site.place.root)
    pulls = any(isinstance(one, Pull) for one in fetched)
    rendered = render(site, wish, ask(site, wish, seen))
    rendered.advised.check()
    put = unit.plan(rendered.unit, rendered.env, seen=seen, place=site.place)
    return Plan(
        seen=seen,
        rendered=rendered,
        packages=tuple(packages.planned(site, seen, pulls=pulls)),
        weights=tuple(fetched),
        unit=tuple(put),
        service=tuple(_service(site, seen, rendered, changed=bool(put or fetched))),
    )


def render(site: Site, deployment: Deployment, asked: Asked) -> Rendered:
    place, seen = site.place, asked.known.box
    advice = advised(site, deployment, asked)
    engine = advice.engine
    wanted = Unit(
        description=f"{deployment.model.name} on {deployment.engine} ({site.box.name})",
        argv=engine.argv(_interpreter(site), advice.arguments),
        workdir=place.home,
        user=seen.system.user,
        env={one.name: one.value for one in advice.settings},
        env_file=place.env_file,
        notifies=engine.notifies,
        final_exit_codes=engine.final_exit_codes,
        ready_timeout_s=deployment.ready_timeout_s,
    )
    return Rendered(
        unit=render_unit(wanted, seen.service.kind),
        env=env_of(site, deployment),
        advised=advice,
    )


def _interpreter(site: Site) -> str:
    """Of a streamed environment by its own folder: a unit that is put back finds the same again."""
    place = site.place
    if place.engine_python != f"{place.environment}/bin/python":
        return place.engine_python
    used = look_landing(site).points_to
    return f"{place.environments}/{used}/bin/python" if used else place.engine_python


def env_of(site: Site, deployment: Deployment) -> str:
    """The file with the service's secrets, as its engine reads them."""
    variable = ENGINES[deployment.engine].key_variable
    return render_env(variable, api_key(site.host, deployment.serving))


def check_engine(seen: Observed, engine: Engine) -> None:
    _refuse(preflight.python(seen.python, engine))


def check_port(seen: Observed) -> None:
    _refuse(preflight.port(seen.port, seen.service))


def check_driver(wish: Deployment, seen: Observed) -> None:
    _refuse(preflight_gpu.driver(wish, seen))


def _refuse(verdict: Verdict) -> None:
    """A plan for a box that does not fit is not made."""
    if verdict.state == "fail":
        raise CheckError(verdict.said, hint=verdict.fix)


def _weights(site: Site, wanted: Weights, seen: Holding) -> tuple[Holding, list[Command]]:
    """What is missing, and the holding with the listing that will be recorded: rules ask for its
    sizes, and a unit must not be another one once the weights are there."""
    where = layout(wanted, site.place)
    if where is None:
        return seen, []
    commands = model.missing(site, wanted, seen, where)
    noted = [one for one in commands if isinstance(one, Put) and one.path == where.listing]
    if noted:
        seen = seen.model_copy(update={"offer": parse_offer(noted[0].text.encode())})
    return seen, commands


def _service(site: Site, seen: Observed, rendered: Rendered, *, changed: bool) -> list[Command]:
    if changed:
        return service.restart(seen.service, site.place, "so that it runs what the unit says")
    if seen.service.state != "running":
        why = f"it is {seen.service.state}"
        return service.restart(seen.service, site.place, why)
    proven = site.generation()
    if proven is None or proven.unit_sha256 != rendered.unit_sha256:
        why = "what runs has not passed its gate with this unit"
        return service.restart(seen.service, site.place, why)
    return []

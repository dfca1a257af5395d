"""Everything there is to see before a plan is made, in one value."""

from __future__ import annotations

from ddops.engines.base import Engine
from ddops.engines.table import ENGINES
from ddops.errors import HostError
from ddops.facts import (
    environment,
    hardware,
    health,
    port,
    python,
    service,
    stock,
    system,
    tools,
    units,
    weights,
)
from ddops.host.base import Host
from ddops.host.open import place_of
from ddops.spec.box import Box
from ddops.spec.command import Result, Run
from ddops.spec.deployment import Deployment, Serving, Weights
from ddops.spec.layout import Layout, layout
from ddops.spec.observed import (
    Health,
    Holding,
    Observed,
    Offer,
    Python,
    Service,
    Supervisor,
    Surveyed,
    System,
)
from ddops.spec.packages import Environment
from ddops.spec.place import Place

NO_PROGRAM = 127


def look(host: Host, box: Box) -> Observed:
    place, wish = place_of(host, box), box.deployment
    machine = look_system(host, place)
    drafter = wish.decoding.drafter
    running = look_service(host, place, supervisor(machine))
    gpus, doing = hardware.look(host)
    return Observed(
        system=machine,
        python=look_python(host, place, ENGINES[wish.engine]),
        gpus=gpus,
        hardware=doing,
        tools=tools.parse(_said(host, tools.COMMAND)),
        model=_present(_look_weights(host, place, wish.model.weights)),
        drafter=_look_weights(host, place, drafter) if isinstance(drafter, Weights) else None,
        port=port.parse(_said(host, port.command(place, wish.serving.port)), wish.serving.port),
        service=running,
        health=_health(host, wish) if running.pid else health.NOT_RUNNING,
    )


def survey(host: Host, box: Box) -> Surveyed:
    seen, place = look(host, box), place_of(host, box)
    return Surveyed(
        **dict(seen),
        units=units.parse(_said(host, units.COMMAND)),
        stock=stock.parse(_said(host, stock.command(place))),
    )


def _health(host: Host, wish: Deployment) -> Health:
    """Of a service that runs. One that follows cannot be asked: it is up when it lives."""
    if wish.follows:
        return health.FOLLOWS
    serving = wish.serving
    return health.look(way_to(host, serving), api_key(host, serving), ENGINES[wish.engine])


def look_system(host: Host, place: Place) -> System:
    return system.parse(_said(host, system.command(place.root)))


def look_python(host: Host, place: Place, engine: Engine) -> Python:
    result = host.run(python.command(place.engine_python, engine.needed))
    if result.code == NO_PROGRAM:
        raise HostError(
            f"there is no {place.engine_python} on box `{place.box}`",
            hint="name an interpreter that has ddops and the engine as `python` in the inventory,"
            f" or bring one: `ddops env stream SRC {place.box}`",
        )
    return python.parse(_checked(result, "look at the engine's Python"))


def look_environment(host: Host, place: Place) -> Environment:
    return environment.parse(_said(host, environment.command(place.engine_python)))


def supervisor(machine: System) -> Supervisor:
    return service.supervisor(machine, service.wished())


def look_service(host: Host, place: Place, by: Supervisor) -> Service:
    said = _said(host, service.command(place, by.kind))
    unit, env = host.read(place.unit_path(by.kind)), host.read(place.env_file)
    return service.parse(said, by, unit=unit, env=env)


def _look_weights(host: Host, place: Place, wanted: Weights) -> Holding | None:
    """None for weights that ship inside the engine."""
    where = layout(wanted, place)
    return look_weights(host, wanted.source, where) if where else None


def look_weights(
    host: Host,
    source: str,
    where: Layout,
    offer: Offer | None = None,
    *,
    read_all: bool = False,
) -> Holding:
    """`offer` names the files of a repository that nothing has recorded yet."""
    recorded = weights.parse_offer(host.read(where.listing)) if where.listing else None
    offer, paths = offer or recorded, where.known_paths
    if offer:
        paths = tuple(f"{where.root}/{file.name}" for file in offer.files)
    seen = weights.look(host, paths, read_all=read_all)
    return Holding(source=source, root=where.root, artefacts=seen, offer=recorded)


def base_url(serving: Serving) -> str:
    """Of the service, as its own box reaches it; a wildcard address is reached by loopback."""
    return f"http://{_address(serving)}:{serving.port}"


def way_to(host: Host, serving: Serving) -> str:
    """The same for this machine: over SSH it is a port of ours that leads there."""
    return f"http://{host.way(_address(serving), serving.port)}"


def _address(serving: Serving) -> str:
    loopback = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}
    return loopback.get(serving.address, serving.address)


def api_key(host: Host, serving: Serving) -> str | None:
    if serving.api_key_file is None:
        return None
    text = host.read(serving.api_key_file)
    if not text or not text.strip():
        raise HostError(
            f"`api_key_file` {serving.api_key_file} is missing or empty",
            hint=f"`(umask 077; openssl rand -hex 32 > {serving.api_key_file})`",
        )
    return text.decode().strip()


def _present(holding: Holding | None) -> Holding:
    return holding or Holding(source="bundled", root="bundled", artefacts=(), offer=None)


def _said(host: Host, command: Run) -> str:
    return _checked(host.run(command), command.why)


def _checked(result: Result, why: str) -> str:
    if not result.ok:
        raise HostError(
            f"looking at the box failed: `{result.argv[0]}` ended with exit code {result.code}",
            detail=result.stderr.strip() or None,
            hint=f"it wanted to: {why}",
        )
    return result.stdout

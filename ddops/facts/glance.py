"""What can be seen of a box on which nothing of ours need be yet: a shell is enough."""

from __future__ import annotations

import time

from ddops.engines.table import ENGINES
from ddops.facts import apt, clock, hardware, imports, port, python, tools, units
from ddops.facts.look import NO_PROGRAM, look_service, look_system, supervisor
from ddops.host.base import Host
from ddops.host.open import place_of
from ddops.spec.box import Box
from ddops.spec.command import Result, Run
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.layout import layout
from ddops.spec.observed import Clock, Glimpse, Port, Service, System
from ddops.spec.place import Place


def glance(host: Host, box: Box) -> Glimpse:
    """Raises `HostError` only when the box itself cannot be looked at."""
    place, wish = place_of(host, box), box.deployment
    machine, gpus = look_system(host, place), hardware.look(host)
    needed = ENGINES[wish.engine].needed
    asked = host.run(python.command(place.engine_python, needed))
    found = python.parse(asked.stdout) if asked.ok else None
    return Glimpse(
        system=machine,
        clock=_clock(host),
        gpus=gpus[0],
        hardware=gpus[1],
        tools=tools.parse(host.run(tools.COMMAND).stdout),
        apt_holder=apt.parse_holder(host.run(apt.HOLDER).stdout),
        units=units.parse(host.run(units.COMMAND).stdout),
        to_fetch=sum(one.size or 0 for one in _absent(host, place, wish)),
        interpreter=place.engine_python,
        complaint=_complaint(asked),
        python=found,
        broken=_broken(host, place, needed) if found and not found.missing else {},
        port=_port(host, place, wish) if found else None,
        service=_service(host, place, machine) if found else None,
    )


def _clock(host: Host) -> Clock:
    asked = time.time()
    said = host.run(clock.COMMAND).stdout
    return clock.parse(said, asked=asked, answered=time.time())


def _broken(host: Host, place: Place, modules: tuple[str, ...]) -> dict[str, str]:
    return imports.parse(host.run(imports.command(place.engine_python, modules)))


def _complaint(asked: Result) -> str | None:
    if asked.ok or asked.code == NO_PROGRAM:
        return None
    lines = asked.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {asked.code}"


def _port(host: Host, place: Place, wish: Deployment) -> Port | None:
    """None: this interpreter lacks what is needed to find out."""
    result = host.run(port.command(place, wish.serving.port))
    return port.parse(result.stdout, wish.serving.port) if result.ok else None


def _service(host: Host, place: Place, machine: System) -> Service | None:
    probe = Run(argv=(place.python, "-c", "import ddops"), why="look whether ddops is there")
    return look_service(host, place, supervisor(machine)) if host.run(probe).ok else None


def _absent(host: Host, place: Place, wish: Deployment) -> list[Weights]:
    drafter = wish.decoding.drafter
    wanted = [wish.model.weights, *([drafter] if isinstance(drafter, Weights) else [])]
    roots = [(one, layout(one, place)) for one in wanted]
    return [
        one
        for one, where in roots
        if where and not host.run(Run(argv=("test", "-e", where.root), why="look")).ok
    ]

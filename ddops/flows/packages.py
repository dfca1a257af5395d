"""Packages: what is missing, and its installation; whoever holds apt's lock is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddops.errors import DdopsError, StepError
from ddops.facts import apt, gpu, tools
from ddops.facts.look import look_system
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command, Run
from ddops.spec.environment import Manifest
from ddops.spec.observed import Gpu, Holder, Python, System
from ddops.steps import packages

_POLL_S = 1.0


@dataclass(frozen=True)
class Ground:
    """A box as an environment will find it that is not there yet."""

    system: System
    gpus: Sequence[Gpu]
    tools: Sequence[str]
    python: Python


def planned(site: Site, seen: packages.Seen, *, pulls: bool) -> list[Run]:
    """What the deployment lacks; `pulls`: files of a hub repository are to be fetched."""
    needs = packages.needs(site.box.deployment, seen, pulls=pulls)
    parts = packages.apart(packages.possible(needs, seen))
    asked = [apt.command([need.package for need in part]) for part in parts]
    told = [apt.parse(site.host.run(command).stdout) for command in asked]
    return packages.plan(list(zip(parts, told, strict=True)), seen)


def planned_for(site: Site, coming: Manifest) -> list[Run]:
    """What an environment lacks to be proven by a kernel, before it is there to be asked."""
    compiles = coming.base == "/usr" and coming.has("triton")
    gpus = gpu.parse(site.host.run(gpu.COMMAND).stdout) if compiles else ()
    if not gpus:
        return []
    minor = ".".join(coming.python.split(".")[:2])
    header = ("test", "-e", f"/usr/include/python{minor}/Python.h")
    python = Python(
        executable=f"/usr/bin/python{minor}",
        version=coming.python,
        base=coming.base,
        headers=site.host.run(Run(argv=header, why="look for the headers of Python")).ok,
        engine=True,
        torch=next((one.version for one in coming.packages if one.name == "torch"), None),
        torch_cuda=coming.cuda,
        missing=(),
    )
    ground = Ground(
        system=look_system(site.host, site.place),
        gpus=gpus,
        tools=tools.parse(site.host.run(tools.COMMAND).stdout),
        python=python,
    )
    return planned(site, ground, pulls=False)


def install(
    site: Site, commands: Sequence[Run], do: Callable[[Command], object], voice: Voice
) -> None:
    """Raises `PackagesError`. apt-get itself waits for dpkg's lock, not for that of its lists."""
    for command in commands:
        wait(site, voice)
        began = time.monotonic()
        try:
            do(command)
        except StepError as error:
            verdict = _verdict(error, holder_now(site), time.monotonic() - began)
            if not command.may_fail:
                raise verdict from None
            voice.warn(f"{verdict.subject}: going on without")


def wait(site: Site, voice: Voice) -> None:
    began, told = time.monotonic(), None
    while (holder := holder_now(site)) is not None:
        waited = time.monotonic() - began
        if waited > packages.LOCK_WAIT_S:
            raise packages.held(holder, waited)
        if holder.pid != told:
            told = holder.pid
            voice.say(f"  apt is in use by process {holder.pid} ({holder.program}): waiting")
        time.sleep(_POLL_S)


def _verdict(error: StepError, holder: Holder | None, waited_s: float) -> DdopsError:
    if holder:
        return packages.held(holder, waited_s)
    return packages.refused(error.detail or "") or error


def holder_now(site: Site) -> Holder | None:
    return apt.parse_holder(site.host.run(apt.HOLDER).stdout)

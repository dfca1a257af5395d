"""Packages on a box: asked for when something is missing, and whose failure matters."""

from __future__ import annotations

import pytest

from ddops.errors import PackagesError, StepError
from ddops.facts import apt, gpu, tools
from ddops.flows import packages
from ddops.flows.site import Site
from ddops.flows.voice import Silent
from ddops.host.base import Progress
from ddops.host.scripted import Scripted
from ddops.spec.command import Command, Result, Run
from ddops.spec.environment import Manifest, Package
from ddops.spec.load import load_box
from tests.ddops.facts.recordings import recorded
from tests.ddops.facts.test_facts import MACHINE
from tests.ddops.seen import observed

REFUSED = "E: Unable to locate package {}\n"


def result(code: int, stderr: str = "") -> Result:
    return Result(argv=("x",), code=code, stdout="", stderr=stderr, seconds=0.0)


class Refusing(Scripted):
    """Its apt has nothing."""

    def apply(self, command: Command, progress: Progress | None = None) -> Result | None:
        if isinstance(command, Run) and "install" in command.argv:
            raise StepError("it ended with exit code 100", detail=REFUSED.format(command.argv[-1]))
        return super().apply(command, progress)


class Heard(Silent):
    def __init__(self) -> None:
        self.warned: list[str] = []

    def warn(self, text: str) -> None:
        self.warned.append(text)


def site(host: Scripted) -> Site:
    return Site(host, load_box("local"))


def coming(*names: str, base: str = "/usr", python: str = "3.12.3") -> Manifest:
    found = tuple(
        Package(name=name, version="1", record="", built_here=False, modules=()) for name in names
    )
    return Manifest(
        schema_version=1,
        origin=None,
        prefix="/v",
        is_venv=True,
        system_site=False,
        python=python,
        base=base,
        site="lib",
        arch="x86_64",
        glibc="2.36",
        cpu_flags=(),
        zstd=True,
        cuda="13.0",
        trees=(),
        files=(),
        links=(),
        binaries=(),
        texts=(),
        mentions=(),
        packages=found,
        patches=(),
    )


def box(*, headers: bool = False, gpus: str = "h200", found: str = "apt-get") -> Scripted:
    return Scripted(
        {
            gpu.COMMAND.line: recorded(gpus, "gpus.csv"),
            "test -e /usr/include/python3.12/Python.h": result(0 if headers else 1),
            tools.COMMAND.line: found,
            "sh -c": MACHINE.replace("ubuntu", "root"),
            apt.HOLDER.line: "",
        }
    )


def test_what_proves_an_environment_is_planned_before_it_is_there() -> None:
    commands = packages.planned_for(site(box()), coming("torch", "triton"))
    assert [one.title for one in commands] == ["update apt's lists", "install gcc python3.12-dev"]


@pytest.mark.parametrize(
    ("host", "manifest"),
    [
        (box(headers=True, found="gcc apt-get"), coming("torch", "triton")),
        (box(gpus="no-driver"), coming("torch", "triton")),
        (box(), coming("torch")),
        (box(), coming("torch", "triton", base="/opt/python")),
    ],
)
def test_an_environment_that_compiles_nothing_or_has_it_all_needs_nothing(
    host: Scripted, manifest: Manifest
) -> None:
    assert packages.planned_for(site(host), manifest) == []


def test_a_convenience_that_apt_lacks_is_warned_of_and_done_without() -> None:
    host, heard = Refusing({apt.HOLDER.line: ""}), Heard()
    seen = observed(tools=["apt-get"], system={"root": True})
    commands = packages.planned(site(host), seen, pulls=True)
    packages.install(site(host), commands, host.apply, heard)
    assert heard.warned == ["apt refuses: Unable to locate package aria2: going on without"]


def test_a_necessity_that_apt_lacks_stops_the_plan() -> None:
    host = Refusing({apt.HOLDER.line: ""})
    need = Run(argv=("apt-get", "install", "gcc"), why="a test")
    with pytest.raises(PackagesError, match="Unable to locate package gcc"):
        packages.install(site(host), [need], host.apply, Silent())

"""Look at a box that has no inventory yet, and write one. Changes nothing on the box."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ddops.engines.table import ENGINES
from ddops.errors import UsageError
from ddops.facts import hardware, software, stock
from ddops.facts.look import look_system
from ddops.flows.site import Site
from ddops.host import atomic
from ddops.render.inventory import render_inventory
from ddops.rules.situate import fabric_of, link_of
from ddops.spec.box import Box, Reach
from ddops.spec.deployment import ROUTERS
from ddops.spec.found import Found, Installation
from ddops.spec.load import read
from ddops.spec.shipped import shipped

_TARGET = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>[\w.-]+)(?::(?P<port>\d+))?")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Written:
    path: Path
    found: Found
    new: bool  # it was not there before; the same file again changes nothing


def target(text: str, name: str | None) -> Box:
    """The box that `local` or `USER@HOST:PORT` means, with the deployment of the embedded default.

    Raises `UsageError` for anything else.
    """
    default = read(shipped("inventories") / "local.yaml", Box, name="local")
    if text == "local":
        return default.model_copy(update={"name": name or "here", "about": ""})
    match = _TARGET.fullmatch(text)
    if match is None:
        raise UsageError(
            f"`{text}` names no box",
            hint="`ddops init USER@HOST`, HOST an address or a name of ~/.ssh/config",
        )
    port = int(match["port"]) if match["port"] else None
    reach = Reach(via="ssh", host=match["host"], user=match["user"], port=port)
    return default.model_copy(update={"name": name or _name(match["host"]), "reach": reach})


def init(site: Site, path: Path) -> Written:
    """Raises `UsageError` rather than change a file that is there."""
    found = look(site)
    text = render_inventory(site.box, found)
    there = path.read_text("utf-8") if path.exists() else None
    if there is not None and there != text:
        raise UsageError(
            f"{path} is there already, and says something else",
            hint="choose another name with `--name`, or remove the file first",
        )
    if there is None:
        atomic.write(path, text.encode())
    return Written(path=path, found=found, new=there is None)


def look(site: Site) -> Found:
    """A shell is all that it needs there."""
    gpus, state = hardware.look(site.host)
    return Found(
        system=look_system(site.host, site.place),
        gpus=gpus,
        link=link_of(gpus, state),
        fabric=fabric_of(state),
        installations=tuple(_installations(site)),
    )


def _installations(site: Site) -> list[Installation]:
    """Engines in the environments of the box, the bundled one first."""
    environments = stock.parse(site.host.run(stock.command(site.place)).stdout).venvs
    found = []
    for engine in (one for one in ENGINES.values() if one.name not in ROUTERS):
        for one in environments:
            python = f"{one.path}/bin/python"
            said = site.host.run(software.command(python, engine))
            seen = software.parse(said.stdout) if said.ok else None
            if seen and seen.installed:
                found.append(Installation(python=python, engine=engine.name, version=seen.version))
    return found


def _name(host: str) -> str:
    """`b300.example.net` is box `b300`; an address keeps all its parts."""
    first = host if host.replace(".", "").isdigit() else host.partition(".")[0]
    return _NOT_IN_A_NAME.sub("-", first.lower()).strip("-")

"""What a bench keeps beside its records: the box in its own words, units as loaded, the log.

Nothing here can fail a cell: of a box that went away it keeps what it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from ddops.errors import HostError
from ddops.facts import service
from ddops.flows import logs
from ddops.flows.site import Site
from ddops.host import hub
from ddops.host.atomic import write
from ddops.spec.bundle import WeightsPart
from ddops.spec.command import Result
from ddops.spec.environment import NOTE
from ddops.spec.observed import Holding, Observed
from ddops.spec.source import Hub, Link, parse_source

BOX: Final = "box"
LOGS: Final = "logs"
FACTS, WEIGHTS, MANIFEST, UNITS = "facts.json", "weights.json", "environment.json", "units"
Role = Literal["model", "drafter"]
_LONGEST: Final = 1 << 20  # characters of what one command said


def box(folder: Path, site: Site, seen: Observed, said: Sequence[Result]) -> None:
    """Once a run: what every command of the look said, the files of the weights, and of the
    environment where one was streamed there.
    """
    raw = [
        {
            "argv": result.argv,
            "code": result.code,
            "stdout": result.stdout[:_LONGEST],
            "stderr": result.stderr[:_LONGEST],
        }
        for result in said
    ]
    _keep(folder / BOX / FACTS, json.dumps(raw, indent=1) + "\n")
    parts = json.dumps([part.model_dump() for part in weights(seen)], indent=1)
    _keep(folder / BOX / WEIGHTS, f"{parts}\n")
    manifest = site.host.read(f"{site.place.environment}/{NOTE}")
    if manifest is not None:
        _keep(folder / BOX / MANIFEST, manifest.decode("utf-8", "replace"))


def weights(seen: Observed) -> Iterator[WeightsPart]:
    """Every file of model and drafter. What is only on the box, or in a wheel, has no address."""
    held: tuple[tuple[Role, Holding | None], ...] = (
        ("model", seen.model),
        ("drafter", seen.drafter),
    )
    for role, holding in held:
        if holding is not None:
            yield from _parts(role, holding)


def unit(folder: Path, site: Site, variant: str) -> None:
    """The unit of a variant as its supervisor has it, drop-ins and defaults included."""
    with suppress(HostError):
        kind = site.supervisor.kind
        if kind == "background":
            loaded = site.host.read(site.place.unit_path(kind)) or b""
            text = loaded.decode("utf-8", "replace")
        else:
            asked = service.loaded(site.place, kind)
            text = "\n".join(site.host.run(command).stdout for command in asked)
        _keep(folder / BOX / UNITS / f"{variant}.loaded", text)


@contextmanager
def log(folder: Path, site: Site, name: str) -> Iterator[None]:
    """What the service writes meanwhile, however that ends."""
    written: Callable[[], str] | None = None
    with suppress(HostError):
        written = logs.mark(site)
    try:
        yield
    finally:
        with suppress(HostError):
            if written is not None:
                _keep(folder / LOGS / f"{name}.log", written())


def _parts(role: Role, holding: Holding) -> Iterator[WeightsPart]:
    for one in holding.artefacts:
        name = _below(one.path, holding.root)
        if name is not None and not one.part:
            yield WeightsPart(
                role=role,
                path=name,
                url=_address(holding, name),
                sha256=one.sha256 or one.recorded,
                size=one.size,
            )


def _below(path: str, root: str) -> str | None:
    if path == root:
        return path.rsplit("/", 1)[-1]
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _address(holding: Holding, name: str) -> str | None:
    match parse_source(holding.source):
        case Link(url=url):
            return url
        case Hub(repo=repo) if holding.offer and holding.offer.commit:
            return hub.address(repo, holding.offer.commit, name)
    return None


def _keep(path: Path, text: str) -> None:
    write(path, text.encode("utf-8", "replace"))

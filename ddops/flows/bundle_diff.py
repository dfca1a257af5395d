"""Two bundles are compared: everything that could explain why their numbers are not the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddops.bundle.difference import differences
from ddops.bundle.recheck import Opened
from ddops.flows.bundle_verify import read_sound, unpacked
from ddops.spec.drift import Drift


@dataclass(frozen=True)
class Compared:
    one: str
    other: str
    found: tuple[Drift, ...]


def diff(one: Path, other: Path) -> Compared:
    """Raises `BundleError` when either has a fault: what was changed is not worth comparing."""
    first, second = _whole(one), _whole(other)
    return Compared(_name(first, one), _name(second, other), tuple(differences(first, second)))


def _whole(path: Path) -> Opened:
    with unpacked(path) as folder:
        return read_sound(path, folder)


def _name(opened: Opened, path: Path) -> str:
    return opened.info.name if opened.info else path.name

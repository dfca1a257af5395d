"""Another machine, as far as Python goes: the wheel, what it asks for, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def installed(wheel: Path, home: Path) -> Path:
    """`pip install ddops` into a fresh environment, without a network; its `bin`.

    What the wheel asks for is linked from the interpreter that runs the tests: those packages, and
    those that they ask for in turn. No extra, so no torch.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, capture_output=True)
    (site,) = home.glob("lib/python3.*/site-packages")
    (own,) = distributions(name="ddops", path=[str(site)])
    for name in sorted(_needed(own)):
        for entry in _entries(name):
            if not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return home / "bin"


def _needed(own: Distribution) -> set[str]:
    """Names of all distributions that `own` asks for, directly or not."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [_step(asked) for asked in _asked(own, frozenset())]
    while waiting:
        step = name, extras = waiting.pop()
        if step not in seen:
            seen.add(step)
            waiting += [_step(asked) for asked in _asked(distribution(name), extras)]
    return {name for name, _ in seen}


def _step(asked: Requirement) -> tuple[str, frozenset[str]]:
    return canonicalize_name(asked.name), frozenset(asked.extras)


def _asked(of: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for asked in map(Requirement, of.requires or ()):
        if asked.marker is None or any(
            asked.marker.evaluate({"extra": extra}) for extra in (*extras, "")
        ):
            yield asked


def _entries(name: str) -> set[Path]:
    """What a distribution has directly in site-packages."""
    own = distribution(name)
    tops = {file.parts[0] for file in own.files or () if file.parts[0] != ".."}
    return {Path(str(own.locate_file(top))) for top in tops if top != "__pycache__"}

"""What GPUs hold now, and for whom. After a crash it tells whether the memory came back."""

from __future__ import annotations

import csv
from io import StringIO

from ddops.spec.base import Word
from ddops.spec.command import Run

_SCRIPT = r"""
nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | sed 's/^/used,/'
nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader | sed 's/^/holder,/'
"""
COMMAND = Run(argv=("sh", "-c", _SCRIPT), why="look what the GPUs hold", timeout_s=60.0)
_SPARE_MIB = 256
_IDLE_MIB = 1024


class Held(Word):
    used_mib: tuple[int, ...]  # by GPU
    holders: tuple[str, ...]  # `PID PROGRAM`


def parse(text: str) -> Held:
    """Text of another shape (no driver, no tool) means that nothing is held."""
    rows = [row for row in csv.reader(StringIO(text), skipinitialspace=True) if row]
    used = [int(row[1]) for row in rows if row[0] == "used" and row[1].strip().isdigit()]
    holders = [" ".join(row[1:3]) for row in rows if row[0] == "holder" and len(row) == 3]
    return Held(used_mib=tuple(used), holders=tuple(holders))


def came_back(held: Held, before: Held) -> bool:
    """No GPU holds more than it did, but for what a driver keeps to itself."""
    pairs = zip(held.used_mib, before.used_mib, strict=True)
    return all(used <= max(then + _SPARE_MIB, _IDLE_MIB) for used, then in pairs)

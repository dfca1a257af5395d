"""How many cores of a box are in use right now: two readings of the kernel's own counters."""

from __future__ import annotations

from dataclasses import dataclass

from ddops.spec.command import Run

COMMAND = Run(argv=("cat", "/proc/stat"), why="see whether other work takes cores")
_IDLE = (3, 4)  # idle and iowait, among the columns of a `cpu` line


@dataclass(frozen=True)
class Ticks:
    cores: int
    idle: int
    total: int


def parse(text: str) -> Ticks | None:
    """None where the box has no such file."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    if not lines:
        return None
    columns = [int(column) for column in lines[0][1:9]]  # guest time is in user time already
    idle = sum(columns[index] for index in _IDLE)
    return Ticks(cores=len(lines) - 1, idle=idle, total=sum(columns))


def cores_between(before: Ticks | None, after: Ticks | None) -> float | None:
    if before is None or after is None or after.total <= before.total:
        return None
    busy = 1 - (after.idle - before.idle) / (after.total - before.total)
    return round(busy * after.cores, 2)

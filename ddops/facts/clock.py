"""How far the clock of a box is from ours, and whether somebody keeps it right."""

from __future__ import annotations

from ddops.spec.command import Run
from ddops.spec.observed import Clock

_SCRIPT = "date +%s.%N; timedatectl show -p NTPSynchronized --value 2>/dev/null; true"
COMMAND = Run(argv=("sh", "-c", _SCRIPT), why="look at the clock")


def parse(text: str, *, asked: float, answered: float) -> Clock:
    """`asked` and `answered` are our times around the question, in seconds since 1970."""
    said, *more = text.split()
    return Clock(
        ahead_s=round(float(said) - (asked + answered) / 2, 3),
        kept={"yes": True, "no": False}.get(more[0] if more else ""),
    )

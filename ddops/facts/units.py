"""Services of the box that run, and those that failed. None of ours need be among them."""

from __future__ import annotations

from ddops.spec.command import Run
from ddops.spec.observed import Units

_SCRIPT = "systemctl list-units --type=service --plain --no-legend --full 2>/dev/null; true"
COMMAND = Run(argv=("sh", "-c", _SCRIPT), why="look which services run")


def parse(text: str) -> Units:
    """Without systemd there are none."""
    rows = [line.split() for line in text.splitlines()]
    states = [(row[0].removesuffix(".service"), row[2], row[3]) for row in rows if len(row) > 3]
    return Units(
        running=tuple(name for name, _, sub in states if sub == "running"),
        failed=tuple(name for name, active, _ in states if active == "failed"),
    )

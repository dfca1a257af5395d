"""Two runs, each a folder or a bundle, compared cell by cell."""

from __future__ import annotations

from pathlib import Path

from ddops.analysis.pairs import Comparison
from ddops.analysis.pairs import compare as pair
from ddops.bench.metrics import tpot_s, ttft_s
from ddops.errors import UsageError
from ddops.flows.evidence import evidence

TIMINGS = {"TTFT s": ttft_s, "TPOT s": tpot_s}


def compare(a: Path, b: Path) -> Comparison:
    """Raises `UsageError` with every reason where nothing of the two can be compared."""
    found = pair(evidence(a), evidence(b), TIMINGS)
    if found.lines:
        return found
    reasons = found.reasons or [f"{one.cell}: {one.reason}" for one in found.refused]
    raise UsageError(
        f"{a} and {b} cannot be compared",
        detail="\n".join(reasons),
        hint="measure both with one matrix: `ddops bench BOX --matrix FILE`",
    )

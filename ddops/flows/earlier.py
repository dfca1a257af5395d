"""How fast a box was at a cell before: for the time that a bench will take."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median

from ddops.errors import SpecError
from ddops.flows.runs import load, read
from ddops.spec.matrix import Load, Pace, Variant
from ddops.spec.run import Run


def speeds(out: Path, box: str, asked: Load) -> dict[tuple[Variant, Pace], float]:
    """Median output tok/s of the good records of `box` under `out` with the same load.

    A run that cannot be read tells nothing: it is for its own bench to say so.
    """
    found: dict[tuple[Variant, Pace], list[float]] = defaultdict(list)
    for folder in sorted(path.parent for path in out.glob("*/run.json")):
        try:
            run = read(folder / "run.json", Run)
            if run.box != box or run.matrix.load != asked or not list(folder.glob("*.r*.json")):
                continue
            for record in load(folder).records.values():
                if record.ok and record.metrics and record.metrics.output_tok_s:
                    at = (record.cell.variant, record.cell.pace)
                    found[at].append(record.metrics.output_tok_s)
        except SpecError:
            continue
    return {at: median(values) for at, values in found.items()}

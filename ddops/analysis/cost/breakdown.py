"""What the steps of a run are made of: each cell taken apart by the fit to all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ddops.analysis.cost.fit import FEWEST, fit
from ddops.analysis.cost.observe import of_run
from ddops.spec.record import Record
from ddops.spec.run import Run


@dataclass(frozen=True)
class Apart:
    """The step of one cell; `parts` in seconds, which add up to what the fit makes of it."""

    cell: str
    measured_s: float
    parts: Mapping[str, float]

    @property
    def error(self) -> float:
        return sum(self.parts.values()) / self.measured_s - 1


@dataclass(frozen=True)
class Breakdown:
    steps: tuple[Apart, ...]

    @property
    def error(self) -> float:
        """Median, of what the fit makes of the steps that it was made from."""
        return median(abs(one.error) for one in self.steps)


def breakdown(run: Run, records: Sequence[Record]) -> Breakdown | None:
    """None where too few cells have a step: a fit to them would say anything."""
    seen = of_run(run, records)
    if len(seen.timed) < FEWEST:
        return None
    found = fit(seen.timed)
    steps = tuple(Apart(one.step.name, one.seconds, found.parts(one.step)) for one in seen.timed)
    return Breakdown(steps)

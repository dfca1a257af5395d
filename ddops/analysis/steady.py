"""Did the box stay the same while a matrix ran? Its first cell, measured again at the end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ddops.analysis.compare import verdict
from ddops.spec.record import Record

STEADY: Final = 0.05
"""Of the first speed. A choice: where the box itself moves by more, a ratio of two variants that
were measured minutes apart says as much of the box as of them."""


@dataclass(frozen=True)
class Steadiness:
    first: Record
    again: Record
    change: float | None  # of output tok/s, as a share of the first; None: one has no speed

    @property
    def steady(self) -> bool:
        return self.change is not None and abs(self.change) <= STEADY

    @property
    def text(self) -> str:
        cell = self.first.cell.id
        if self.change is None:
            said = f"{verdict(self.first)} first, {verdict(self.again)} last"
            return f"not known whether the box stayed the same: {cell} was {said}"
        both = (self.first.metrics, self.again.metrics)
        before, after = (metrics.output_tok_s for metrics in both if metrics)
        told = f"{cell} made {before:.1f} tok/s first and {after:.1f} last ({self.change:+.1%})"
        if self.steady:
            return f"the box stayed the same: {told}"
        return f"the box changed while it was measured: {told}, so ratios may be its doing"


def steadiness(records: Sequence[Record]) -> Steadiness | None:
    """None where no cell was measured again. The last attempt at each counts."""
    last = {record.cell.id: record for record in records}
    again = next((record for record in last.values() if record.cell.again), None)
    if again is None:
        return None
    first = last.get(again.cell.model_copy(update={"again": False}).id)
    if first is None:
        return None
    speeds = [_speed(record) for record in (first, again)]
    known = speeds[0] and speeds[1]
    return Steadiness(first, again, speeds[1] / speeds[0] - 1 if known else None)


def _speed(record: Record) -> float:
    return record.metrics.output_tok_s if record.ok and record.metrics else 0.0

"""Repeats of one configuration side by side: the median repeat speaks, the others are its spread.

Pure. Every number a group tells is the number of one record, so that it can be looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final, TypeVar

from ddops.analysis.compare import Speedup, baseline, speedup, verdict
from ddops.spec.matrix import Matrix, Pace, Variant
from ddops.spec.record import Metrics, Record

_T = TypeVar("_T")
MISSING: Final = "not measured"


@dataclass(frozen=True)
class Group:
    """One variant at one pace; `records` by repeat, the last attempt at each."""

    variant: Variant
    pace: Pace
    asked: int  # repeats the matrix wants
    records: tuple[Record, ...]
    speedup: Speedup | None = None  # median record over median record of `ar`
    by_repeat: tuple[Speedup, ...] = ()  # over `ar` of the same repeat, where both are good

    @property
    def concurrency(self) -> int:
        """0 in an open loop."""
        return self.pace.concurrency

    @property
    def good(self) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record.ok and record.metrics)

    @property
    def median(self) -> Record | None:
        """The good record with the median throughput (the lower one of two)."""
        return _median(self.good, lambda record: _metrics(record).output_tok_s)

    @property
    def throughputs(self) -> tuple[float, ...]:
        return tuple(_metrics(record).output_tok_s for record in self.good)

    @property
    def agreed(self) -> bool:
        """Every repeat says the same of the speed-up: faster, or slower."""
        return len({each.value >= 1 for each in self.by_repeat}) <= 1

    @property
    def verdict(self) -> str:
        """`ok`, the first verdict that is not, or `not measured`."""
        if not self.records:
            return MISSING
        bad = [said for said in map(verdict, self.records) if said != "ok"]
        return bad[0] if bad else "ok"


def groups(matrix: Matrix, records: Sequence[Record]) -> tuple[Group, ...]:
    """Every variant at every pace that the matrix has for it, in its order, measured or not."""
    alone = [
        _group(matrix, variant, pace, records)
        for variant in matrix.variants
        for pace in matrix.ladder(variant)
    ]
    return tuple(_compared(group, alone, records) for group in alone)


def step_s(metrics: Metrics) -> float | None:
    """Seconds per target step of one request: TPOT p50 x accept; without speculation TPOT."""
    if metrics.tpot_s is None:
        return None
    return metrics.tpot_s.p50 * (metrics.accept or 1.0)


def user_tok_s(metrics: Metrics) -> float | None:
    """Tokens per second that one user sees while the answer streams: 1 / TPOT p50."""
    if metrics.tpot_s is None or metrics.tpot_s.p50 <= 0:
        return None
    return 1 / metrics.tpot_s.p50


def _group(matrix: Matrix, variant: Variant, pace: Pace, records: Sequence[Record]) -> Group:
    """Without the last look at the first cell: that is no repeat, it comes after all others."""
    every = (r for r in records if not r.cell.again)
    own = [r for r in every if (r.cell.variant, r.cell.pace) == (variant, pace)]
    own.sort(key=lambda record: record.cell.repeat)
    return Group(variant, pace, matrix.repeats, tuple(own))


def _compared(group: Group, alone: Sequence[Group], records: Sequence[Record]) -> Group:
    """Medians are compared with medians, so that the ratio is that of the two rows shown."""
    if group.variant.mode == "ar" or group.median is None:
        return group
    rung = [each for each in alone if each.pace == group.pace]
    bases = [each.median for each in rung if each.variant.mode == "ar" and each.median]
    pairs = [(record, baseline(record, records)) for record in group.good]
    ratios = [speedup(record, base) for record, base in pairs if base is not None]
    return replace(
        group,
        speedup=speedup(group.median, bases[0]) if bases else None,
        by_repeat=tuple(ratio for ratio in ratios if ratio is not None),
    )


def _metrics(record: Record) -> Metrics:
    assert record.metrics is not None, "only good records have a place in a median"
    return record.metrics


def _median(values: Sequence[_T], key: Callable[[_T], float]) -> _T | None:
    if not values:
        return None
    middle = median_low(map(key, values))
    return next(value for value in values if key(value) == middle)

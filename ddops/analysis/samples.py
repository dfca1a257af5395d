"""Samples of a box as series over time, and the sums that are made of series. Pure.

A series is (time, value) in the order of time, all times on the clock of the sampler.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Final

from pydantic import ValidationError

from ddops.spec.telemetry import End, GpuRow, Head, Sample

Rows = Sequence[tuple[float, GpuRow]]
Series = Sequence[tuple[float, float]]
POWER, BUSY, MEMORY_BUSY, MEMORY, SM, CLOCK, THROTTLE, HEAT, COUNTED = range(1, 10)
"""Places in the row of a GPU."""
_MOST_PACKAGE_W: Final = 5000.0
"""No CPU package takes this: a counter that seems to say so began again from somewhere else."""


@dataclass(frozen=True)
class Samples:
    head: Head
    lines: tuple[Sample, ...]
    rows: Mapping[int, Rows]  # of each GPU, in order of time
    end: End | None  # None: it was killed, or cut off

    @property
    def indices(self) -> tuple[int, ...]:
        """Of the GPUs that were there when it began."""
        return tuple(index for index, _, _ in self.head.gpus)

    @property
    def own(self) -> tuple[int, ...] | None:
        """GPUs on which the driver saw a process of the service; None where it was not asked."""
        told = [line.u for line in self.lines if line.u is not None]
        return tuple(sorted({index for each in told for index in each})) if told else None

    def package(self, place: int) -> Series:
        """uJ that the counter of one CPU package says."""
        return self.host(lambda line: line.e[place] if line.e and place < len(line.e) else None)

    def host(self, value: Callable[[Sample], float | None]) -> Series:
        """What the lines of the host say, where they say it."""
        return [(line.t, said) for line in self.lines if (said := value(line)) is not None]


def parse(text: str) -> Samples | None:
    """None for a file without a head. What was being written when its writer died is left out.

    Raises `ValueError` for a line in the middle that is none.
    """
    first, *rest = text.split("\n")
    if not first or not rest:
        return None
    lines = [line for line in rest[:-1] if line]
    end = None
    try:
        head = Head.model_validate_json(first)
        if lines and '"end"' in lines[-1]:
            end = End.model_validate_json(lines.pop())
        told = tuple(Sample.model_validate_json(line) for line in lines)
    except ValidationError as wrong:
        raise ValueError(f"a line that no sampler writes: {wrong.errors()[0]['msg']}") from None
    rows: dict[int, list[tuple[float, GpuRow]]] = {index: [] for index, _, _ in head.gpus}
    for line in told:
        for row in line.g or ():
            rows.setdefault(row[0], []).append((line.t, row))
    ordered = {index: sorted(own, key=itemgetter(0)) for index, own in rows.items()}
    return Samples(head, told, ordered, end)


def column(rows: Rows, place: int) -> Series:
    """One value of a GPU's rows, where it is told."""
    return [(t, float(value)) for t, row in rows if (value := row[place]) is not None]


def inside(series: Series, start: float, end: float) -> Series:
    """The points of a window; of one that is shorter than the time between two, its neighbours."""
    first = bisect_left(series, start, key=itemgetter(0))
    last = bisect_right(series, end, key=itemgetter(0))
    return series[first:last] if first < last else series[max(first - 1, 0) : last + 1]


def at(series: Series, t: float) -> float | None:
    """The value at `t`, linear between its neighbours; None outside the series."""
    place = bisect_left(series, t, key=itemgetter(0))
    if place < len(series) and series[place][0] == t:
        return series[place][1]
    if not 0 < place < len(series):
        return None
    (before, low), (after, high) = series[place - 1 : place + 1]
    return low + (high - low) * (t - before) / (after - before)


def integral(series: Series, start: float, end: float) -> float | None:
    """Trapezoids from `start` to `end`, the edges cut linearly; None where it is not bracketed."""
    low, high = at(series, start), at(series, end)
    if low is None or high is None:
        return None
    times = itemgetter(0)
    between = series[bisect_right(series, start, key=times) : bisect_left(series, end, key=times)]
    points = [(start, low), *between, (end, high)]
    return math.fsum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(points))


def rise(counter: Series, start: float, end: float) -> float | None:
    """How far a counter rose from `start` to `end`; None where it is not bracketed."""
    low, high = at(counter, start), at(counter, end)
    return None if low is None or high is None else high - low


def mean(series: Series) -> float | None:
    return math.fsum(value for _, value in series) / len(series) if series else None


def peak(series: Series) -> float | None:
    return max((value for _, value in series), default=None)


def widest_gap(times: Sequence[float], start: float, end: float) -> float:
    """Seconds between the two neighbours that are furthest apart, of those around the window."""
    first = max(bisect_left(times, start) - 1, 0)
    near = times[first : bisect_left(times, end) + 1]
    return max((b - a for a, b in pairwise(near)), default=0.0)


def unwrapped(counter: Series, limit: float) -> Series:
    """The same without the falls of a counter that begins again at `limit`.

    Raises `Reset` for a fall that no wrap explains.
    """
    return list(_unwrapped(counter, limit))


class Reset(Exception):
    """A counter began again; the text says when."""


def _unwrapped(counter: Series, limit: float) -> Iterator[tuple[float, float]]:
    added = 0.0
    before: tuple[float, float] | None = None
    for t, value in counter:
        if before is not None and value < before[1]:
            risen = value + limit - before[1]
            if limit <= 0 or risen / 1e6 > _MOST_PACKAGE_W * max(t - before[0], 1.0):
                raise Reset(f"it fell from {before[1]:.0f} to {value:.0f} at {t:.1f} s")
            added += limit
        before = (t, value)
        yield t, value + added

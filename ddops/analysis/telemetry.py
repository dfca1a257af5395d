"""From samples to what a record keeps: power, energy and use over the measured window. Pure.

Energy is only told where nothing speaks against it (`faults.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ddops.analysis.faults import faults_of
from ddops.analysis.samples import (
    BUSY,
    CLOCK,
    COUNTED,
    HEAT,
    MEMORY,
    MEMORY_BUSY,
    POWER,
    SM,
    THROTTLE,
    Reset,
    Samples,
    Series,
    column,
    inside,
    integral,
    mean,
    parse,
    peak,
    rise,
    unwrapped,
)
from ddops.spec.deployment import Deployment
from ddops.spec.telemetry import (
    THROTTLES,
    Curve,
    Fault,
    GpuRow,
    GpuUse,
    HostUse,
    Telemetry,
    Window,
)

_PARTS: Final = 120  # of the window, to be drawn: a point every 3 pixels
_SHORTEST_PART_S: Final = 0.2  # two samples
_HIDDEN: Final = {
    "processes on GPUs": "the driver lists none of the service's, so the fullest serve"
}


@dataclass(frozen=True)
class Expected:
    """What the samples are held against."""

    tokens: float  # that the window brought
    gpus: int  # that the box has
    used: int  # of them, those that the service runs on


def telemetry(text: str, window: Window, expected: Expected) -> Telemetry:
    """Raises `ValueError` for a text that no sampler wrote."""
    samples = parse(text)
    if samples is None:
        return absent("the file of samples is empty")
    span = _Span(window.opened, window.opened + window.length_s)
    listed = samples.own
    own = listed or _fullest(samples, span, expected.used)
    faults = tuple(faults_of(samples, window, expected.gpus))
    packages = _package_j(samples, span)
    told = not faults and window.length_s > 0
    gpus = tuple(_gpu(samples, index, span, told=told) for index in samples.indices)
    drawn = _sum([gpu.energy_j for gpu in gpus if gpu.index in own])
    energy = _rounded(drawn if gpus else packages) if told else None
    return Telemetry(
        window=window,
        interval_s=samples.head.interval_s,
        source=samples.head.source,
        gpus=gpus,
        serving=own,
        serving_by="processes" if listed else "memory",
        host=_host(samples, span, packages if told else None),
        energy_j=energy,
        j_per_token=round(energy / expected.tokens, 6) if energy and expected.tokens else None,
        faults=faults,
        missing=dict(samples.head.why) | (_HIDDEN if listed == () else {}),
        curve=_curve(samples, span, own),
    )


def use(deployment: Deployment, gpus: int) -> int:
    """GPUs that a deployment is spread over, of those that a box has, as an inventory means it."""
    every = min(gpus, 1) if deployment.engine == "ddtree" else gpus
    return min(deployment.gpus or every, gpus)


def absent(why: str) -> Telemetry:
    """Of a window beside which nothing could be sampled."""
    return Telemetry(
        window=None,
        interval_s=None,
        source=None,
        gpus=(),
        serving=(),
        host=None,
        energy_j=None,
        j_per_token=None,
        faults=(Fault(kind="no-samples", detail=why),),
        missing={},
        curve=None,
    )


@dataclass(frozen=True)
class _Span:
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start

    def share(self, total: float | None) -> float | None:
        """The mean of what adds up to `total` over the window."""
        return total / self.length if total is not None and self.length > 0 else None


def _fullest(samples: Samples, span: _Span, used: int) -> tuple[int, ...]:
    """The `used` GPUs that hold the most memory: an engine fills those that it runs on."""

    def held(index: int) -> float:
        return peak(inside(column(samples.rows[index], MEMORY), span.start, span.end)) or 0.0

    fullest = sorted(samples.indices, key=lambda index: (-held(index), index))
    return tuple(sorted(fullest[:used]))


def _gpu(samples: Samples, index: int, span: _Span, *, told: bool) -> GpuUse:
    rows = samples.rows[index]

    def seen(place: int) -> Series:
        return inside(column(rows, place), span.start, span.end)

    name, limit = next((name, limit) for each, name, limit in samples.head.gpus if each == index)
    power = column(rows, POWER)
    energy = integral(power, span.start, span.end)
    counted = rise(column(rows, COUNTED), span.start, span.end)
    throttles = _throttles(rows, span)
    return GpuUse(
        index=index,
        name=name,
        limit_w=limit,
        mean_w=_rounded(span.share(energy)),
        peak_w=peak(seen(POWER)),
        energy_j=_rounded(energy) if told else None,
        counted_j=_rounded(counted / 1e3) if told and counted is not None else None,
        busy=_percent(mean(seen(BUSY))),
        memory_busy=_percent(mean(seen(MEMORY_BUSY))),
        memory_mib=peak(seen(MEMORY)),
        sm_mhz=_rounded(mean(seen(SM))),
        memory_mhz=_rounded(mean(seen(CLOCK))),
        throttled=throttles.pop("", None) if throttles else None,
        throttles=throttles,
        peak_c=peak(seen(HEAT)),
    )


def _throttles(rows: Sequence[tuple[float, GpuRow]], span: _Span) -> dict[str, float]:
    """Share of the samples by reason, and under "" those with any; empty where it is not told."""
    told = [int(bits) for _, bits in inside(column(rows, THROTTLE), span.start, span.end)]
    if not told:
        return {}
    counted = {reason: sum(bool(bits & bit) for bits in told) for bit, reason in THROTTLES.items()}
    every = sum(any(bits & bit for bit in THROTTLES) for bits in told)
    shares = {reason: count / len(told) for reason, count in counted.items() if count}
    return {"": round(every / len(told), 4), **{r: round(s, 4) for r, s in shares.items()}}


def _package_series(samples: Samples) -> list[Series]:
    """uJ of each package, always rising; none where a counter began again."""
    try:
        limits = enumerate(limit for _, limit in samples.head.packages)
        return [unwrapped(samples.package(place), limit) for place, limit in limits]
    except Reset:
        return []


def _package_j(samples: Samples, span: _Span) -> float | None:
    found = [rise(series, span.start, span.end) for series in _package_series(samples)]
    total = _sum(found)
    return total / 1e6 if total is not None else None


def _host(samples: Samples, span: _Span, energy_j: float | None) -> HostUse:
    def cores(counter: Series) -> float | None:
        return _rounded(span.share(rise(counter, span.start, span.end)))

    used = inside(samples.host(lambda line: line.m), span.start, span.end)
    own = inside(samples.host(lambda line: line.p and line.p[1]), span.start, span.end)
    return HostUse(
        cores=samples.head.cores,
        busy_cores=cores(samples.host(lambda line: line.c and line.c[0])),
        service_cores=cores(_service(samples)),
        sampler_cores=cores(samples.host(lambda line: line.s)),
        memory=samples.head.memory,
        memory_peak=int(peak(used) or 0) or None,
        service_memory_peak=int(peak(own) or 0) or None,
        energy_j=_rounded(energy_j),
    )


def _service(samples: Samples) -> Series:
    """Seconds of CPU time of the service. What ended takes its time with it: that is no fall."""
    rising: list[tuple[float, float]] = []
    lost = 0.0
    for t, seconds in samples.host(lambda line: line.p and line.p[0]):
        if rising and seconds + lost < rising[-1][1]:
            lost = rising[-1][1] - seconds
        rising.append((t, seconds + lost))
    return rising


def _curve(samples: Samples, span: _Span, own: Sequence[int]) -> Curve | None:
    if span.length <= 0:
        return None
    parts = max(1, min(_PARTS, math.floor(span.length / _SHORTEST_PART_S)))
    step = span.length / parts
    edges = [span.start + step * number for number in range(parts)]
    powers = [column(samples.rows[index], POWER) for index in own]
    packages = _package_series(samples)
    service = _service(samples)

    def mean_of(total: float | None, divided_by: float = 1.0) -> float | None:
        return None if total is None else round(total / divided_by / step, 2)

    return Curve(
        step_s=round(step, 4),
        watts=tuple(mean_of(_sum([integral(p, t, t + step) for p in powers])) for t in edges)
        if powers
        else (),
        package_watts=tuple(
            mean_of(_sum([rise(p, t, t + step) for p in packages]), 1e6) for t in edges
        )
        if packages
        else (),
        cores=tuple(mean_of(rise(service, t, t + step)) for t in edges),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """None as soon as one is, and of none at all."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value / 100, 4)

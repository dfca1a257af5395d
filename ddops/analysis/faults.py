"""What speaks against the energy that samples of a window would give. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ddops.analysis.samples import COUNTED, POWER, Reset, Samples, column, unwrapped, widest_gap
from ddops.spec.telemetry import Fault, Window

MOST_GAP_S: Final = 1.0
"""Ten samples. A straight line over more of them hides whole steps of a decode."""
MOST_STEP_S: Final = 0.05  # of the wall clock, by which nvidia-smi stamps its lines


def faults_of(samples: Samples, window: Window, expected: int) -> Iterator[Fault]:
    """`expected`: GPUs that the box has."""
    yield from _of_gpus(samples, window, expected)
    yield from _of_host(samples, window)


def _of_gpus(samples: Samples, window: Window, expected: int) -> Iterator[Fault]:
    found = len(samples.indices)
    if found < expected:
        detail = f"{found} of {expected} GPUs were there"
        yield Fault(kind="missing-gpu", detail=detail)
    for index in samples.indices:
        rows = samples.rows[index]
        power = column(rows, POWER)
        if not power:
            yield Fault(kind="missing-gpu", detail=f"GPU {index} told no power")
            continue
        lost = samples.lines[-1].t - power[-1][0] > MOST_GAP_S
        if lost and power[-1][0] < window.opened + window.length_s:
            detail = f"GPU {index} fell silent {power[-1][0] - window.opened:.1f} s into the window"
            yield Fault(kind="missing-gpu", detail=detail)
            continue
        yield from _of_times(f"GPU {index}", [t for t, _ in power], window)
        counted = [value for _, value in column(rows, COUNTED)]
        if counted != sorted(counted):
            detail = f"GPU {index}: its driver's count of energy fell"
            yield Fault(kind="counter-reset", detail=detail)
    if samples.head.source == "nvidia-smi" and samples.end is not None:
        begun, ended = samples.head, samples.end
        step = (ended.wall - ended.t) - (begun.wall - begun.t)
        if abs(step) > MOST_STEP_S:
            yield Fault(kind="clock-step", detail=f"the box's clock was set by {step:+.2f} s")


def _of_host(samples: Samples, window: Window) -> Iterator[Fault]:
    """Of the lines that hold the packages' counters, and the CPU's."""
    yield from _of_times("the host", [t for t, _ in samples.host(lambda s: s.m)], window)
    for place, (name, limit) in enumerate(samples.head.packages):
        try:
            unwrapped(samples.package(place), limit)
        except Reset as reset:
            yield Fault(kind="counter-reset", detail=f"{name}: {reset}")


def _of_times(what: str, times: Sequence[float], window: Window) -> Iterator[Fault]:
    start = window.opened - window.clock_error_s
    end = window.opened + window.length_s + window.clock_error_s
    if not times or times[0] > start:
        late = f"{times[0] - start:.2f} s late" if times else "never"
        yield Fault(kind="not-bracketed", detail=f"{what}: the first sample came {late}")
    elif times[-1] < end:
        early = f"{end - times[-1]:.2f} s before the end"
        yield Fault(kind="not-bracketed", detail=f"{what}: the last sample came {early}")
    if (gap := widest_gap(times, start, end)) > MOST_GAP_S:
        yield Fault(kind="gap", detail=f"{what}: {gap:.2f} s without a sample")

"""What each cell drew and what limited it, for tables: the numbers of one record each. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ddops.analysis.bottleneck import Bottleneck
from ddops.analysis.signs import bottleneck
from ddops.spec.record import Record
from ddops.spec.telemetry import GpuUse, Telemetry

MOST_APART: Final = 0.05  # as InferenceX allows
COUNTED_FROM_S: Final = 5.0  # a driver's count moves every 20 to 100 ms: too coarse for less


@dataclass(frozen=True)
class Effort:
    """None: not known. Of GPUs those that serve; without any, watts are of the CPU packages."""

    cell: str
    mean_w: float | None
    peak_w: float | None  # the sum of each GPU's own
    limit_w: float | None
    j_per_token: float | None
    busy: float | None  # mean share of the time with a kernel
    throttled: float | None  # of the GPU that was held back most
    cores: int | None
    service_cores: float | None
    busy_cores: float | None
    bottleneck: Bottleneck | None
    doubts: tuple[str, ...]  # why no energy is told
    apart: tuple[str, ...]  # where the driver's own count says another energy
    missing: dict[str, str]

    @property
    def bound(self) -> str | None:
        return self.bottleneck.label if self.bottleneck else None


def efforts(records: Sequence[Record]) -> tuple[Effort, ...]:
    """Of the good records beside which the box was sampled."""
    told = ((record, record.telemetry) for record in records if record.ok)
    return tuple(effort(record, telemetry) for record, telemetry in told if telemetry is not None)


def effort(record: Record, told: Telemetry) -> Effort:
    own, host = told.own, told.host
    window_s = told.window.length_s if told.window else 0.0
    packages = host.energy_j if host and not own else None
    return Effort(
        cell=record.cell.id,
        mean_w=_sum([gpu.mean_w for gpu in own])
        if packages is None or not window_s
        else round(packages / window_s, 3),
        peak_w=_sum([gpu.peak_w for gpu in own]),
        limit_w=_sum([gpu.limit_w for gpu in own]),
        j_per_token=told.j_per_token,
        busy=_mean([gpu.busy for gpu in own]),
        throttled=max((gpu.throttled for gpu in own if gpu.throttled is not None), default=None),
        cores=host.cores if host else None,
        service_cores=host.service_cores if host else None,
        busy_cores=host.busy_cores if host else None,
        bottleneck=bottleneck(record),
        doubts=tuple(fault.detail for fault in told.faults),
        apart=_apart(own) if window_s >= COUNTED_FROM_S else (),
        missing=told.missing,
    )


def _apart(own: Sequence[GpuUse]) -> tuple[str, ...]:
    return tuple(
        f"GPU {gpu.index}: its driver counted {gpu.counted_j:.0f} J, its power gives "
        f"{gpu.energy_j:.0f}"
        for gpu in own
        if gpu.counted_j is not None and gpu.energy_j
        if abs(gpu.counted_j / gpu.energy_j - 1) > MOST_APART
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    total = _sum(values)
    return total / len(values) if total is not None else None

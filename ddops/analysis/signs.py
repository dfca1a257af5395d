"""The signs of a bottleneck that a record holds, and what they come to. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ddops.analysis.bottleneck import Bottleneck, Signs, judge
from ddops.analysis.cost import exchange
from ddops.analysis.cost.catalogue import link, recognised
from ddops.analysis.cost.observe import work
from ddops.analysis.repeats import step_s
from ddops.spec.cost import Processor
from ddops.spec.record import Record
from ddops.spec.telemetry import GpuUse, Telemetry


def bottleneck(record: Record) -> Bottleneck | None:
    """None for a cell that is not good, or beside which nothing was sampled."""
    told = record.telemetry
    if not record.ok or record.metrics is None or told is None or told.window is None:
        return None
    return judge(signs_of(record, told))


def signs_of(record: Record, told: Telemetry) -> Signs:
    gpus, host = told.own, told.host
    on, needed = _processor(gpus), work(record, max(1, len(gpus)))
    step = step_s(record.metrics) if record.metrics else None
    links = None
    if on is not None and needed is not None:
        links = exchange.seconds(needed.shape, len(gpus), needed.tokens, link(on), late=False)
    unseen = any(fault.kind == "missing-gpu" for fault in told.faults)
    return Signs(
        gpus=max(len(gpus), int(unseen)),
        busy=_mean([gpu.busy for gpu in gpus]),
        power=_power(gpus),
        step_s=step,
        memory_s=needed.bytes / (on.tb_s * 1e12) if on and needed else None,
        compute_s=needed.flops / (on.tflops * 1e12) if on and needed else None,
        interconnect_s=links,
        step_bytes=needed.bytes if needed else None,
        cores=host.cores if host else None,
        service_cores=host.service_cores if host else None,
        busy_cores=host.busy_cores if host else None,
    )


def _processor(gpus: Sequence[GpuUse]) -> Processor | None:
    """None where they differ, or are not in the catalogue."""
    names = {gpu.name or "" for gpu in gpus}
    return recognised(names.pop()) if len(names) == 1 else None


def _power(gpus: Sequence[GpuUse]) -> float | None:
    drawn, limit = _mean([gpu.mean_w for gpu in gpus]), _mean([gpu.limit_w for gpu in gpus])
    return drawn / limit if drawn is not None and limit else None


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one of them is, or where there are none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None

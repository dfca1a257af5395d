"""Times a piece of device work: as a captured graph on CUDA, as a plain call on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from ddtree.engine.graphs import Graphs

COPY_BYTES = 4 << 30  # on CUDA: many times the cache
COPY_BYTES_CPU = 256 << 20


def median_seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median over `repeats` runs after two that do not count."""
    run = _as_graph(work) if device.type == "cuda" else work
    clock = _device_clock if device.type == "cuda" else _host_clock
    times = sorted([clock(run) for _ in range(repeats + 2)][2:])
    return times[len(times) // 2]


def _host_clock(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _device_clock(run: Callable[[], object]) -> float:
    stream = torch.cuda.current_stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    stream.record_event(begin)
    run()
    stream.record_event(end)
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second of a large copy on the device, read and written bytes both counted."""
    count = COPY_BYTES if device.type == "cuda" else COPY_BYTES_CPU
    source = torch.empty(count, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    # not as a graph: there the copy engine runs it, at 2.8 TB/s on an H200 instead of 4.2
    clock = _device_clock if device.type == "cuda" else _host_clock
    seconds = sorted(clock(lambda: target.copy_(source)) for _ in range(9))[4]
    return 2 * count / seconds


def _as_graph(work: Callable[[], object]) -> Callable[[], None]:
    graph, _ = Graphs().record(work)
    return graph.replay

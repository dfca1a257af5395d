"""Kernels of a replayed graph follow each other as closely as they can, however many there are."""

from __future__ import annotations

import pytest
import torch

from ddtree.engine.graphs import Graphs
from ddtree.ops.close_gaps import close_gaps

pytestmark = pytest.mark.gpu


def microseconds(graph: torch.cuda.CUDAGraph) -> float:
    """The least of 30 times 20 replays: other programs of the device make none quicker."""
    times = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(20):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 20 * 1e3)
    return float(min(times))


def test_graphs_recorded_later_leave_no_gaps_in_the_first() -> None:
    x, mark = torch.zeros(64, device="cuda"), torch.ones(1, device="cuda")

    def work() -> None:
        for _ in range(300):
            x.add_(1)

    graphs = Graphs()
    first, _ = graphs.record(work)
    for count in range(8):
        graphs.record(work)
        recorded = microseconds(first)
        close_gaps(mark)
        assert recorded < 1.05 * microseconds(first), f"after {count + 1} more"
    assert mark.item() == 0
    graphs.release()

"""Kernels of a replayed graph follow each other as closely as they can, whatever is between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.engine.graphs import Graphs
from ddtree.engine.upload import Download
from ddtree.ops.close_gaps import close_gaps
from ddtree.ops.to_host import to_host
from tests.gpu.engine import ask, running, small_models

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


class Spanned:
    """A graph, and how long each of its replays took."""

    def __init__(self, graph: torch.cuda.CUDAGraph, before: Callable[[], None]) -> None:
        self.graph, self.before = graph, before
        self.spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def replay(self) -> None:
        self.before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        self.graph.replay()
        end.record()
        self.spans.append((begin, end))

    def median(self) -> float:
        """Microseconds."""
        torch.cuda.synchronize()
        times: list[float] = [begin.elapsed_time(end) * 1e3 for begin, end in self.spans]
        return sorted(times)[len(times) // 2]


def test_what_a_served_step_says_to_the_host_leaves_no_gaps_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside steps that certainly leave none; with a copy engine's copy each takes 13 % longer."""
    config = EngineConfig(
        model="random",
        mode="ddtree",
        drafter="random",
        budget=16,
        context_length=256,
        max_running_requests=1,
        dtype="bfloat16",
    )
    mark = torch.zeros(1, device="cuda")

    def by_kernel(numbers: torch.Tensor) -> Download:
        host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        to_host(numbers.contiguous(), host)
        return Download(host, torch.cuda.current_stream().record_event())

    with running(config, small_models("cuda", torch.bfloat16, layers=30)) as engine:
        captured = engine._runner.stepper._captured
        bucket = next(bucket for bucket in captured if bucket.budget)
        graph = captured[bucket].graph

        def served(before: Callable[[], None]) -> float:
            spanned = Spanned(graph, before)
            captured[bucket] = replace(captured[bucket], graph=spanned)  # type: ignore[arg-type]
            for number in (6, 13, 20):  # 60 tokens each
                ask(engine, [number])
            assert len(spanned.spans) > 100
            return spanned.median()

        ours = served(lambda: None)
        with monkeypatch.context() as patched:
            patched.setattr("ddtree.engine.stepper.download", by_kernel)
            closed = served(lambda: close_gaps(mark))
    assert ours < 1.05 * closed


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

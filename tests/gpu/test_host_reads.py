"""The host waits for a step once, after it: shown by torch's own watch and by a trace."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from ddtree.config import EngineConfig
from ddtree.core.sequence import Sequence
from ddtree.engine.stepper import Ticket
from ddtree.speculate.seam import Models
from ddtree.speculate.step import step
from tests.gpu.engine import ask, running, small_models

pytestmark = pytest.mark.gpu
ROWS, SETTLED, TRACED = 4, 6, 12  # steps of all rows before the trace, and steps in it
CONFIG = EngineConfig(
    model="random",
    mode="ddtree",
    drafter="random",
    budget=16,
    context_length=256,
    max_running_requests=ROWS,
)


@pytest.fixture(scope="module")
def models() -> Models:
    return small_models("cuda")


@contextmanager
def refusing_waits() -> Iterator[None]:
    """A call of torch that makes the host wait for the device raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a prototype, it says
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("mode", ["ar", "chain", "ddtree"])
def test_an_eager_step_never_makes_the_host_wait(
    models: Models, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    def watched(*asked: object) -> object:
        nonlocal steps
        steps += 1
        with refusing_waits():
            return step(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr("ddtree.engine.stepper.step", watched)
    with running(replace(CONFIG, mode=mode, graphs="off"), models) as engine:  # type: ignore[arg-type]
        ask(engine, range(4))
    assert steps > SETTLED


def test_a_replayed_step_is_one_launch_and_one_wait(models: Models) -> None:
    trace = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True)
    steps = 0
    with running(CONFIG, models) as engine:
        honest = engine._runner.launch

        def launch(sequences: list[Sequence]) -> Ticket:
            nonlocal steps
            steps += steps >= SETTLED or len(sequences) == ROWS  # all prompts are cached
            if steps == SETTLED:
                trace.start()
            if steps == SETTLED + TRACED:
                trace.stop()
            return honest(sequences)

        engine._runner.launch = launch  # type: ignore[method-assign]
        ask(engine, (6, 13, 20, 27))  # 60 tokens each
    assert steps > SETTLED + TRACED
    calls = Counter(event.name for event in trace.events() or [])  # type: ignore[no-untyped-call]
    told = {name: count for name, count in calls.items() if name.startswith("cuda")}
    assert abs(calls["cudaGraphLaunch"] - TRACED) <= 1, told
    assert calls["cudaEventSynchronize"] <= TRACED + 1, told
    assert not calls["cudaStreamSynchronize"] + calls["cudaMemcpy"], told
    assert calls["cudaDeviceSynchronize"] <= 1, told  # the trace's own, when it ends

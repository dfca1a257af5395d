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
from ddtree.speculate.seam import Models
from ddtree.speculate.step import step
from tests.gpu.engine import ask, running, small_models

pytestmark = pytest.mark.gpu
SETTLED, TRACED = 6, 12  # steps before the trace, when all prompts are cached, and in it
CONFIG = EngineConfig(
    model="random",
    mode="ddtree",
    drafter="random",
    budget=16,
    context_length=256,
    max_running_requests=4,
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

    def on_step() -> None:
        nonlocal steps
        steps += 1
        if steps == SETTLED:
            trace.start()
        if steps == SETTLED + TRACED:
            trace.stop()

    with running(CONFIG, models) as engine:
        engine.on_step = on_step
        ask(engine, (6, 13, 20, 27))  # 60 tokens each
    assert steps >= SETTLED + TRACED
    calls = Counter(event.name for event in trace.events() or [])  # type: ignore[no-untyped-call]
    assert abs(calls["cudaGraphLaunch"] - TRACED) <= 1
    assert calls["cudaEventSynchronize"] <= TRACED + 1
    assert not calls["cudaStreamSynchronize"] + calls["cudaMemcpy"]
    assert calls["cudaDeviceSynchronize"] <= 1  # the trace's own, when it ends

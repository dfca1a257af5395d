"""10,000 replayed steps with changing batches: no drift, no leak."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
import torch

from ddtree.config import EngineConfig
from tests.gpu.engine import ask, running, small_models

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS, REQUESTS = 10_000, 40
CONFIG = EngineConfig(
    model="random",
    mode="ddtree",
    drafter="random",
    budget=16,
    context_length=256,
    max_running_requests=8,
)


def test_ten_thousand_steps_answer_as_the_first_did_in_the_same_memory() -> None:
    models = small_models("cuda")
    with running(replace(CONFIG, mode="ar", graphs="off"), models) as plain:
        wanted = dict(enumerate(ask(plain, range(REQUESTS))))
    held: list[int] = []
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    with running(CONFIG, models) as engine:
        engine.on_step = count
        numbers, widths = cycle(range(REQUESTS)), cycle((1, 3, 8, 2, 5, 12))
        while steps < STEPS:
            asked = [next(numbers) for _ in range(next(widths))]
            assert ask(engine, asked) == [wanted[number] for number in asked]
            torch.cuda.synchronize()
            held.append(torch.cuda.memory_allocated())
    settled = held[len(held) // 10 :]  # the first batches of each size compile and capture
    assert min(settled) == max(settled)

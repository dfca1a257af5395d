"""Replayed graphs commit the tokens that eager steps commit, at every budget."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.core.sequence import Output, Request
from ddtree.engine.build import build
from ddtree.speculate.seam import Models
from ddtree.stepbench.measure import random_models
from ddtree.stepbench.shapes import PAIRS, Pair

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BUDGETS = (1, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256)
VOCAB = 64  # small, so that random drafts are accepted now and then


@pytest.fixture(scope="module")
def models() -> Models:
    pair = PAIRS["smollm2-135m"]
    target = replace(pair.target, num_layers=6, vocab_size=VOCAB)
    layers = replace(pair.drafter.layers, num_layers=2, vocab_size=VOCAB)
    drafter = replace(pair.drafter, layers=layers, target_layer_ids=(0, 2, 4))
    with torch.inference_mode():
        return random_models(Pair(target, drafter), torch.float32, torch.device("cuda"))


def answers(models: Models, config: EngineConfig, count: int) -> tuple[list[list[int]], int]:
    """Tokens of `count` requests of different lengths, and how many drafts were accepted."""
    engine = build(config, models)
    engine.start()
    collected: list[list[int]] = [[] for _ in range(count)]
    done = [threading.Event() for _ in range(count)]

    def listener(i: int) -> object:
        def on_output(output: Output) -> None:
            collected[i].extend(output.tokens)
            if output.finish is not None:
                done[i].set()

        return on_output

    for i in range(count):
        prompt = tuple((7 * i + j * j) % VOCAB for j in range(5 + 9 * i % 50))
        engine.submit(Request(str(i), prompt, 30 + 5 * (i % 7)), listener(i))  # type: ignore[arg-type]
    for event in done:
        assert event.wait(300), engine.failure
    engine.stop(drain=True, timeout_s=60)
    assert engine.failure is None
    engine.check_integrity()
    return collected, engine.stats().speculation.accepted


@pytest.mark.parametrize("budget", BUDGETS)
def test_replay_equals_eager_and_autoregressive(models: Models, budget: int) -> None:
    config = EngineConfig(
        model="random",
        mode="ddtree",
        drafter="random",
        budget=budget,
        context_length=256,
        max_running_requests=8,
    )
    replayed, accepted = answers(models, config, 12)
    eager, _ = answers(models, replace(config, graphs="off"), 12)
    plain, _ = answers(models, replace(config, mode="ar", graphs="off"), 12)
    assert accepted > 0
    assert replayed == eager
    assert replayed == plain

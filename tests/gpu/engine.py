"""An engine of random weights whose drafts are accepted now and then, and what it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from ddtree.config import EngineConfig
from ddtree.core.sequence import Output, Request
from ddtree.engine.build import build
from ddtree.engine.loop import Engine
from ddtree.speculate.seam import Models
from ddtree.stepbench.measure import random_models
from ddtree.stepbench.shapes import PAIRS, Pair

DEVICE = "cuda"
VOCAB = 64  # small, so that random drafts are accepted now and then


def small_models(device: str, dtype: torch.dtype = torch.float32, *, layers: int = 6) -> Models:
    pair = PAIRS["smollm2-135m"]
    target = replace(pair.target, num_layers=layers, vocab_size=VOCAB)
    drafts = replace(pair.drafter.layers, num_layers=2, vocab_size=VOCAB)
    drafter = replace(pair.drafter, layers=drafts, target_layer_ids=(0, 2, 4))
    with torch.inference_mode():
        return random_models(Pair(target, drafter), dtype, torch.device(device))


def small_kimi(device: str, dtype: torch.dtype) -> Models:
    """Kimi-K2.6 with few and narrow layers, but its own latents, and INT4 experts."""
    pair = PAIRS["kimi-k2.6"]
    assert pair.target.experts is not None and pair.target.latent is not None
    target = replace(
        pair.target,
        num_layers=4,
        vocab_size=VOCAB,
        hidden_size=512,
        intermediate_size=256,
        num_heads=8,
        experts=replace(pair.target.experts, count=24, active=4, intermediate_size=64),
        latent=replace(pair.target.latent, query_rank=128),
    )
    layers = replace(
        pair.drafter.layers,
        num_layers=2,
        vocab_size=VOCAB,
        hidden_size=512,
        intermediate_size=256,
        num_heads=4,
        num_kv_heads=2,
    )
    drafter = replace(
        pair.drafter,
        layers=layers,
        mask_token_id=VOCAB - 1,
        target_layer_ids=(0, 1, 2),
        reaches=pair.drafter.reaches[:2],
    )
    with torch.inference_mode():
        return random_models(Pair(target, drafter, int4=True), dtype, torch.device(device))


def request(number: int) -> Request:
    """One of many: prompts of 5 to 54 tokens, answers of 30 to 60."""
    prompt = tuple((7 * number + j * j) % VOCAB for j in range(5 + 9 * number % 50))
    return Request(str(number), prompt, 30 + 5 * (number % 7))


@contextmanager
def running(config: EngineConfig, models: Models) -> Iterator[Engine]:
    engine = build(config, models)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop(drain=True, timeout_s=60)
    assert engine.failure is None
    engine.check_integrity()


def ask(engine: Engine, numbers: Sequence[int]) -> list[list[int]]:
    """The tokens of each request; all are in flight at once."""
    collected: list[list[int]] = [[] for _ in numbers]
    done = [threading.Event() for _ in numbers]

    def listener(i: int) -> Callable[[Output], None]:
        def on_output(output: Output) -> None:
            collected[i].extend(output.tokens)
            if output.finish is not None:
                done[i].set()

        return on_output

    for i, number in enumerate(numbers):
        engine.submit(request(number), listener(i))
    for event in done:
        assert event.wait(300), engine.failure
    return collected

"""Families with a drafter that slides and masks in its own way: greedy stays greedy."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Literal

import pytest
import torch

from ddtree.config import (
    EngineConfig,
    Experts,
    Latent,
    ModelShape,
    Reach,
    RopeScaling,
    SigmoidRouting,
)
from ddtree.core.sequence import Output, Request
from ddtree.engine.build import build
from ddtree.models.dflash import Drafter, drafter_shapes
from ddtree.models.llama import Llama, target_shapes
from ddtree.speculate.seam import Models
from tests.runtime.models.tensors import random_tensors
from tests.runtime.models.test_dflash import LAYERS, NEAR, SHAPE

MIXTURE = replace(
    LAYERS,
    family="qwen3_moe",
    vocab_size=12,  # random drafts agree often
    num_layers=4,
    experts=Experts(count=4, active=2, intermediate_size=24, normalised=True, dense_layers=(1,)),
    rope_scaling=RopeScaling("yarn", 4.0, 16, slow=1.0, fast=32.0, amplitude=1.14),
)
LATENT = replace(
    MIXTURE,
    family="deepseek_v3",
    qk_norm=False,
    head_dim=20,
    latent=Latent(16, rope_dim=8, nope_dim=12, value_dim=10, query_rank=24, scale=0.3),
    experts=Experts(
        count=8,
        active=3,
        intermediate_size=24,
        normalised=True,
        dense_layers=(0,),
        shared_size=24,
        sigmoid=SigmoidRouting(groups=4, active_groups=2, scaling=2.827),
    ),
)
PROMPTS = [(3, 1, 4, 1, 5, 9, 2, 6), (2, 7), (11,) * 30]
LENGTH = 40


def answers(
    of: ModelShape,
    mode: Literal["ar", "chain", "ddtree"],
    reaches: tuple[Reach, ...] = (),
    *,
    looked_up: bool = False,
) -> list[list[int]]:
    like = torch.empty(0, dtype=torch.float32)
    target = Llama(of, random_tensors(target_shapes(of), seed=1), like)
    layers: ModelShape = replace(LAYERS, vocab_size=12)
    shape = replace(SHAPE, layers=layers, mask_token_id=12, reaches=reaches)
    mask = torch.ones(layers.hidden_size)
    drafter = Drafter(shape, random_tensors(drafter_shapes(shape), seed=2), like, mask)
    named = "prompt-lookup" if looked_up else "random"
    config = EngineConfig(
        "random", named, mode, budget=12, context_length=96, page_size=4, prefill_chunk=7
    )
    drafts = mode != "ar" and not looked_up
    engine = build(config, Models(target, drafter if drafts else None))
    engine.start()
    collected: list[list[int]] = [[] for _ in PROMPTS]
    ended = [threading.Event() for _ in PROMPTS]

    def submit(i: int) -> None:
        def on_output(output: Output) -> None:
            collected[i].extend(output.tokens)
            if output.finish is not None:
                ended[i].set()

        engine.submit(Request(str(i), PROMPTS[i], LENGTH), on_output)

    for i in range(len(PROMPTS)):
        submit(i)
    for event in ended:
        assert event.wait(60), engine.failure
    totals = engine.stats().speculation
    engine.stop(drain=True, timeout_s=10)
    assert mode == "ar" or totals.accepted > 0
    return collected


@pytest.mark.parametrize("shape", [MIXTURE, LATENT], ids=["mixture", "latent"])
def test_speculation_changes_no_token(shape: ModelShape) -> None:
    wanted = answers(shape, "ar")
    assert [len(answer) for answer in wanted] == [LENGTH] * len(PROMPTS)
    for reaches in ((), NEAR):
        assert answers(shape, "ddtree", reaches) == wanted
    assert answers(shape, "chain", NEAR) == wanted
    assert answers(shape, "ddtree", looked_up=True) == wanted

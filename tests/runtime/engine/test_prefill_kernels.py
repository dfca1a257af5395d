"""Prompts side by side in lines leave what each leaves alone, whole, unpadded and without kernels.

Close only: a product is numpy's here, whose bits know its shape. Bits are tests/gpu's.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from ddtree.cache.pool import KvPool
from ddtree.core.sequence import Sampling
from ddtree.engine.lines import Form, Piece
from ddtree.engine.prefiller import Prefiller, Written
from ddtree.ops.backend import kernels_everywhere
from ddtree.speculate.seam import Models, Pools
from ddtree.stepbench.measure import random_models
from ddtree.stepbench.shapes import PAIRS, Pair
from tests.runtime.ops.interpreted import close, interpreted

pytestmark = interpreted
PAGE, PAGES, VOCAB = 8, 4, 32
HOT = Sampling(0.9, top_p=0.8, top_k=9, min_p=0.01, seed=5)
# where each prompt is cut: its second part finds the first one in the cache
CUTS = [(0, 18), (0, 3), (0, 8, 12)]
FORM = Form(lines=5, prompts=4, pages=PAGES + 2)  # one line and one prompt more than are used


def models(family: str) -> Models:
    """Two narrow layers of SmolLM2 or, with latents and INT4 experts, of Kimi-K2.6."""
    pair = PAIRS[family]
    narrow = {"num_layers": 2, "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 32}
    heads = {"num_heads": 2, "num_kv_heads": 1, "head_dim": 16}
    target = replace(pair.target, **narrow, **heads)  # type: ignore[arg-type]
    if target.latent is not None:
        assert target.experts is not None
        latent = replace(
            target.latent, rank=32, rope_dim=16, nope_dim=16, value_dim=16, query_rank=32
        )
        experts = replace(target.experts, count=3, active=2, intermediate_size=32, shared_size=32)
        target = replace(
            target, num_heads=2, num_kv_heads=2, head_dim=32, latent=latent, experts=experts
        )
    layers = replace(pair.drafter.layers, **narrow | {"num_layers": 1}, **heads)  # type: ignore[arg-type]
    drafter = replace(
        pair.drafter, layers=layers, mask_token_id=1, target_layer_ids=(0, 1), reaches=()
    )
    with torch.inference_mode():
        return random_models(Pair(target, drafter), torch.float32, torch.device("cpu"))


def pools(of: Models) -> Pools:
    """Whatever is read before it was written is NaN."""
    assert of.drafter is not None
    slots = (1 + PAGES * len(CUTS)) * PAGE
    target, drafter = (
        KvPool(shape, slots, dtype=torch.float32, device=torch.device("cpu"))
        for shape in (of.target.held, of.drafter.shape.layers)
    )
    for pool in (target, drafter):
        pool.kv.fill_(float("nan"))
    return Pools(target, drafter, PAGE)


def piece(prompt: int, begin: int, end: int, *, ends: bool) -> Piece:
    """Some tokens of a prompt that has just the pages it needs."""
    tokens = [(7 * at + prompt * at * at + prompt) % VOCAB for at in range(begin, end)]
    first = 1 + prompt * PAGES
    pages = list(range(first, first - (-CUTS[prompt][-1] // PAGE)))
    return Piece(tokens, begin, pages, HOT if prompt % 2 else Sampling(), ends)


def rounds() -> list[list[Piece]]:
    """First all first parts, then all second ones."""
    found: list[list[Piece]] = [[], []]
    for prompt, cuts in enumerate(CUTS):
        for at, (begin, end) in enumerate(pairwise(cuts)):
            found[at].append(piece(prompt, begin, end, ends=end == cuts[-1]))
    return found


def cached(where: Pools, prompt: int) -> list[torch.Tensor]:
    """What the caches hold of a prompt."""
    assert where.drafter is not None
    begin = (1 + prompt * PAGES) * PAGE
    held = slice(begin, begin + CUTS[prompt][-1])
    return [pool.kv[:, :, held] for pool in (where.target, where.drafter)]


def said(written: Written, at: int) -> list[int]:
    found: list[int] = written.chosen[at].tolist()
    return found


@pytest.mark.parametrize(
    "family", ["smollm2-135m", pytest.param("kimi-k2.6", marks=pytest.mark.slow)]
)
def test_lines_leave_what_prompts_leave_alone(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = models(family)
    alone, together = Prefiller(of, pools(of)), Prefiller(of, pools(of))
    tokens: dict[int, list[int]] = {}
    with torch.inference_mode():
        for prompt, cuts in enumerate(CUTS):
            written = alone.write([piece(prompt, 0, cuts[-1], ends=True)])
            assert written is not None
            tokens[prompt] = said(written, 0)
    monkeypatch.setattr(Prefiller, "form", lambda *_: FORM)
    with torch.inference_mode(), kernels_everywhere():
        for pieces in rounds():
            written = together.write(pieces)
            assert written is not None
            for at, one in enumerate(pieces):
                if one.ends:
                    assert said(written, at) == tokens[(one.pages[0] - 1) // PAGES]
    for prompt in range(len(CUTS)):
        for mine, other in zip(
            cached(together.pools, prompt), cached(alone.pools, prompt), strict=True
        ):
            assert torch.isfinite(other).all()
            close(mine, other)

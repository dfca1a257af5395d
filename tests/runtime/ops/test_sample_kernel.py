"""The sampling kernels, interpreted, choose the reference's tokens."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.sample import Chance, Method, Narrowing, launch, sample, uniform
from tests.runtime.ops.interpreted import interpreted, poison

pytestmark = interpreted


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_a_seed_and_a_position_draw_the_reference_s_number(kind: torch.dtype) -> None:
    """Of 4096 equal logits the one at floor(4096 u)."""
    seed = torch.tensor([5, 2**61 + 7, 0, -3])
    position = torch.tensor([0, 2, 3, 4095, 10**6, 2**31 - 2]).expand(4, -1)
    chance, one = Chance(seed, position.to(kind)), torch.ones(4)
    logits = torch.zeros(4, 6, 4096)
    expected = (uniform(seed.unsqueeze(1), position + 1) * 4096).long()
    assert torch.equal(sample(logits, one, one, chance, method="full").tokens, expected)
    with kernels_everywhere():
        assert torch.equal(sample(logits, one, one, chance, method="full").tokens, expected)


def test_the_peak_tells_of_any_logit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PART", 64)
    monkeypatch.setattr(launch, "STRIP", 16)
    logits = torch.randn(1, 5, 300)
    logits[0, 1, 299], logits[0, 2, 7], logits[0, 3] = torch.nan, torch.inf, -torch.inf
    given = (torch.zeros(1), torch.ones(1), chances(1, 5))
    expected = sample(logits, *given, method="greedy").peak
    with kernels_everywhere(), poison():
        got = sample(logits, *given, method="greedy")
    assert torch.equal(got.peak.nan_to_num(9e9), expected.nan_to_num(9e9))
    assert got.peak.isfinite().tolist() == [[True, False, False, False, True]]
    assert got.tokens[0, 2:].tolist() == logits[0, 2:].argmax(-1).tolist()


def chances(rows: int, nodes: int) -> Chance:
    return Chance(torch.arange(rows) * 7919, torch.arange(rows * nodes).view(rows, nodes) + 100)


@pytest.mark.parametrize("method", get_args(Method))
@pytest.mark.parametrize("levels", [None, 4], ids=["distinct", "ties"])
@pytest.mark.parametrize("kept", [4, 64], ids=["long", "listed"])
def test_draws_over_several_blocks(
    method: Method, levels: int | None, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not a list holds what the filters leave."""
    for name, value in (("BLOCK", 32), ("PART", 32), ("STRIP", 8), ("KEPT", kept)):
        monkeypatch.setattr(launch, name, value)
    torch.manual_seed(len(method))
    logits = torch.randn(4, 2, 70) * 2
    if levels is not None:
        logits = torch.randint(0, levels, (4, 2, 70)).float()
    temperature = torch.tensor([0.0, 0.7, 1.3, 1.0])
    top_p = torch.tensor([0.5, 0.9, 0.3, 1.0])
    narrowing = Narrowing(torch.tensor([3, 0, 7, 40]), torch.tensor([0.0, 0.05, 0.0, 0.1]))
    chance = chances(4, 2)
    expected = sample(logits, temperature, top_p, chance, method=method, narrowing=narrowing).tokens
    with kernels_everywhere():
        got = sample(logits, temperature, top_p, chance, method=method, narrowing=narrowing).tokens
    assert torch.equal(got, expected)


@pytest.mark.parametrize("method", get_args(Method))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounded_logits_are_drawn_like_the_same_numbers_in_float32(
    method: Method, dtype: torch.dtype
) -> None:
    logits = (torch.randn(2, 3, 70) * 4).to(dtype)
    given = (torch.tensor([0.0, 1.1]), torch.tensor([1.0, 0.9]))
    chance = chances(2, 3)
    expected = sample(logits.float(), *given, chance, method=method).tokens
    assert torch.equal(sample(logits, *given, chance, method=method).tokens, expected)
    with kernels_everywhere():
        assert torch.equal(sample(logits, *given, chance, method=method).tokens, expected)

"""The selection kernels, interpreted, rank the tokens that a stable sort ranks."""

from __future__ import annotations

import pytest
import torch

from ddtree.core.batch import Marginals
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.marginals import launch, marginals
from tests.runtime.ops.interpreted import interpreted, poison

pytestmark = interpreted


def ranked(logits: torch.Tensor, width: int) -> Marginals:
    """Equal logits go to the smaller token."""
    ordered = torch.sort(logits, dim=-1, descending=True, stable=True)
    logprobs = ordered.values - logits.logsumexp(-1, keepdim=True)
    return Marginals(ordered.indices[..., :width], logprobs[..., :width])


@pytest.mark.parametrize("width", [1, 5, 32])
@pytest.mark.parametrize("levels", [None, 4], ids=["distinct", "ties"])
def test_the_best_tokens_of_several_parts_in_order(
    width: int, levels: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PART", 32)
    monkeypatch.setattr(launch, "BLOCK", 8)
    torch.manual_seed(width)
    logits = torch.randn(2, 3, 110) * 2
    if levels is not None:
        logits = torch.randint(-1, levels, (2, 3, 110)).float()
    logits[0, 0, :100] = float("-inf")
    with kernels_everywhere(), poison():
        got = marginals(logits, width)
    expected = ranked(logits, width)
    assert torch.equal(got.tokens, expected.tokens)
    torch.testing.assert_close(got.logprobs, expected.logprobs)


@pytest.mark.parametrize("best", [slice(64, 128), slice(5, 300, 3)], ids=["one", "all"])
def test_the_best_tokens_wherever_they_crowd(best: slice) -> None:
    """In one block, so that more of them than are wanted reach the other blocks' maxima."""
    torch.manual_seed(3)
    logits = (torch.randn(1, 2, 300) * 2).bfloat16().float()
    logits[..., best] += 20
    with kernels_everywhere(), poison():
        got, rounded = marginals(logits, 17), marginals(logits.bfloat16(), 17)
    assert torch.equal(got.tokens, ranked(logits, 17).tokens)
    assert torch.equal(rounded.tokens, ranked(logits.bfloat16().float(), 17).tokens)


def test_a_vocabulary_smaller_than_the_width_is_ranked_whole() -> None:
    logits = torch.tensor([[[0.5, 2.0, -1.0]]])
    with kernels_everywhere():
        got = marginals(logits, 8)
    assert got.tokens.tolist() == [[[1, 0, 2]]]


@pytest.mark.parametrize("vocabulary", [1, 63, 65, 111])
def test_odd_vocabularies(vocabulary: int) -> None:
    logits = torch.randint(-2, 3, (1, 2, vocabulary)).float()
    with kernels_everywhere(), poison():
        got = marginals(logits.bfloat16(), 17)
    assert torch.equal(got.tokens, ranked(logits, 17).tokens)


def test_a_logit_that_is_no_number_makes_no_probability_one() -> None:
    logits = torch.randn(1, 2, 70).bfloat16()
    logits[0, 0, 3], logits[0, 1, 64:] = torch.nan, -torch.nan
    with kernels_everywhere():
        got = marginals(logits, 16)
    assert got.logprobs.isnan().all()
    assert ((got.tokens >= 0) & (got.tokens < 70)).all()


def test_no_width_is_refused() -> None:
    with pytest.raises(ValueError, match="width 0"):
        marginals(torch.zeros(1, 1, 3), 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounded_logits_are_ranked_like_the_same_numbers_in_float32(dtype: torch.dtype) -> None:
    logits = (torch.randn(2, 3, 110) * 4).round(decimals=1).to(dtype)  # with ties
    logits[0, 0, :80], logits[0, 1, ::2], logits[0, 2, 5] = -torch.inf, -0.0, 3e4
    with kernels_everywhere():
        got, expected = marginals(logits, 16), marginals(logits.float(), 16)
    assert torch.equal(got.tokens, expected.tokens)
    assert torch.equal(got.logprobs.nan_to_num(9e9), expected.logprobs.nan_to_num(9e9))
    assert torch.equal(got.tokens, ranked(logits.float(), 16).tokens)

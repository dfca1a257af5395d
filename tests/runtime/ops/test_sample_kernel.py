"""The sampling kernels, interpreted, choose the reference's tokens."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.sample import Method, Narrowing, launch, sample, uniform
from tests.runtime.ops.interpreted import interpreted

pytestmark = interpreted


def test_uniform_numbers_are_the_same_everywhere() -> None:
    seed = torch.tensor([[5], [2**61 + 7], [0]])
    position = torch.tensor([[1, 2, 3, 10**6]])
    with kernels_everywhere():
        got = uniform(seed, position)
    assert torch.equal(got, uniform(seed, position))


@pytest.mark.parametrize("method", get_args(Method))
@pytest.mark.parametrize("levels", [None, 4], ids=["distinct", "ties"])
def test_draws_over_several_blocks(
    method: Method, levels: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "BLOCK", 32)
    torch.manual_seed(len(method))
    logits = torch.randn(4, 2, 70) * 2
    if levels is not None:
        logits = torch.randint(0, levels, (4, 2, 70)).float()
    temperature = torch.tensor([0.0, 0.7, 1.3, 1.0])
    top_p = torch.tensor([0.5, 0.9, 0.3, 1.0])
    narrowing = Narrowing(torch.tensor([3, 0, 7, 40]), torch.tensor([0.0, 0.05, 0.0, 0.1]))
    draw = torch.rand(4, 2, dtype=torch.float64)
    expected = sample(logits, temperature, top_p, draw, method=method, narrowing=narrowing)
    with kernels_everywhere():
        got = sample(logits, temperature, top_p, draw, method=method, narrowing=narrowing)
    assert torch.equal(got, expected)


@pytest.mark.parametrize("method", get_args(Method))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounded_logits_are_drawn_like_the_same_numbers_in_float32(
    method: Method, dtype: torch.dtype
) -> None:
    logits = (torch.randn(2, 3, 70) * 4).to(dtype)
    given = (torch.tensor([0.0, 1.1]), torch.tensor([1.0, 0.9]))
    draw = torch.rand(2, 3, dtype=torch.float64)
    expected = sample(logits.float(), *given, draw, method=method)
    assert torch.equal(sample(logits, *given, draw, method=method), expected)
    with kernels_everywhere():
        assert torch.equal(sample(logits, *given, draw, method=method), expected)

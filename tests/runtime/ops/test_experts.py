"""The mixture against every expert run on every token, and its kernels, interpreted."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.experts import expert_mlp
from tests.runtime.ops.interpreted import close, interpreted

SIZES = [(1, 24, 40, 5, 2), (9, 64, 64, 4, 4), (40, 96, 33, 7, 3), (70, 200, 70, 3, 1)]
Data = tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]


def data(m: int, hidden: int, inner: int, experts: int, active: int) -> Data:
    torch.manual_seed(m)
    stacks = (
        torch.randn(experts, 2 * inner, hidden) / hidden**0.5,
        torch.randn(experts, hidden, inner) / inner**0.5,
    )
    weights, chosen = torch.rand(m, experts).softmax(-1).topk(active)
    return torch.randn(m, hidden), stacks, chosen, weights


def every_expert_on_every_token(
    x: torch.Tensor,
    stacks: tuple[torch.Tensor, torch.Tensor],
    chosen: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    gate, up = torch.einsum("mh,efh->mef", x, stacks[0]).chunk(2, dim=-1)
    all_of_them = torch.einsum("mef,ehf->meh", functional.silu(gate) * up, stacks[1])
    share = torch.zeros(len(x), len(stacks[0])).scatter(1, chosen, weights)
    return torch.einsum("me,meh->mh", share, all_of_them)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_token_is_the_weighted_sum_of_its_experts(sizes: tuple[int, ...]) -> None:
    x, stacks, chosen, weights = data(*sizes)
    got = expert_mlp(x, stacks, chosen, weights, x)
    wanted = x + every_expert_on_every_token(x, stacks, chosen, weights)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@interpreted
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_kernels_agree_with_the_reference(sizes: tuple[int, ...]) -> None:
    x, stacks, chosen, weights = data(*sizes)
    with kernels_everywhere():
        got = expert_mlp(x, stacks, chosen, weights, x)
    close(got, expert_mlp(x, stacks, chosen, weights, x))


@interpreted
def test_tokens_that_all_want_the_same_experts_fill_its_tiles() -> None:
    x, stacks, chosen, weights = data(40, 64, 32, 6, 2)
    chosen[:] = torch.tensor([4, 1])
    with kernels_everywhere():
        got = expert_mlp(x, stacks, chosen, weights, x)
    close(got, expert_mlp(x, stacks, chosen, weights, x))


@interpreted
def test_a_tokens_bits_do_not_depend_on_the_others() -> None:
    x, stacks, chosen, weights = data(37, 96, 48, 5, 2)
    with kernels_everywhere():
        together = expert_mlp(x, stacks, chosen, weights, x)
        for at in (0, 17, 36):
            one = slice(at, at + 1)
            alone = expert_mlp(x[one], stacks, chosen[one], weights[one], x[one])
            assert alone.equal(together[one])


def test_experts_of_other_features_are_refused() -> None:
    x, stacks, chosen, weights = data(2, 24, 40, 5, 2)
    with pytest.raises(ValueError, match="do not fit 23 features"):
        expert_mlp(x[:, :23], stacks, chosen, weights, x[:, :23])

"""The mixture against every expert run on every token, and its kernels, interpreted."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ddtree.models.packed import dequantise
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.experts import expert_mlp, launch
from ddtree.ops.experts.packed import Packed, regrouped, stays_packed
from tests.runtime.ops.interpreted import close, interpreted, poison

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
    with kernels_everywhere(), poison():
        got = expert_mlp(x, stacks, chosen, weights, x)
    close(got, expert_mlp(x, stacks, chosen, weights, x))


def shared(m: int, hidden: int, features: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(features)
    return torch.randn(m, features), torch.randn(hidden, features) / features**0.5


@interpreted
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("features", [16, 64, 130])
def test_what_every_token_goes_to_is_added(sizes: tuple[int, ...], features: int) -> None:
    x, stacks, chosen, weights = data(*sizes)
    inner, down = shared(sizes[0], sizes[1], features)
    plain = expert_mlp(x, stacks, chosen, weights, x, (inner, down))
    wanted = x + every_expert_on_every_token(x, stacks, chosen, weights) + inner @ down.T
    torch.testing.assert_close(plain, wanted, rtol=1e-4, atol=1e-4)
    with kernels_everywhere(), poison():
        close(expert_mlp(x, stacks, chosen, weights, x, (inner, down)), plain)


@interpreted
def test_an_expert_that_is_elsewhere_adds_nothing() -> None:
    x, stacks, chosen, weights = data(9, 64, 64, 4, 2)
    own = (chosen[:, 1] < 2).unsqueeze(1) & torch.tensor([False, True])
    chosen, weights = chosen.masked_fill(~own, 4), weights.masked_fill(~own, 0.0)
    wanted = x + every_expert_on_every_token(x, stacks, chosen.clamp(max=3), weights)
    plain = expert_mlp(x, stacks, chosen, weights, x)
    torch.testing.assert_close(plain, wanted, rtol=1e-4, atol=1e-4)
    with kernels_everywhere(), poison():
        close(expert_mlp(x, stacks, chosen, weights, x), plain)


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


ONE_GROUP = 288  # columns of a matrix with one scale a row
# One line and several, ones that segments do not share evenly, rows that blocks of 16 do not either
PACKED = [
    (1, 64, 32, 5, 2),
    (9, 256, 32, 4, 4),
    (18, 352, 32, 3, 2),
    (5, 72, ONE_GROUP, 2, 1),
    (6, 1312, 64, 4, 2),
    (7, 72, 32, 3, 2),
]
Int4 = tuple[torch.Tensor, tuple[Packed, Packed], torch.Tensor, torch.Tensor]


def words(outputs: int, features: int) -> torch.Tensor:
    return torch.randint(-(2**31), 2**31, (outputs, features // 8)).to(torch.int32)


def int4(experts: int, outputs: int, features: int, kind: torch.dtype) -> Packed:
    stored = torch.stack([words(outputs, features) for _ in range(experts)])
    groups = 1 if features == ONE_GROUP else features // 32
    scale = (torch.rand(experts, outputs, groups) + 0.5) / features**0.5 / 4
    return regrouped(stored, scale.to(kind))


def packed(sizes: tuple[int, ...], kind: torch.dtype) -> Int4:
    _, hidden, inner, experts, _ = sizes
    x, _, chosen, weights = data(*sizes)
    stacks = (int4(experts, 2 * inner, hidden, kind), int4(experts, hidden, inner, kind))
    return x, stacks, chosen, weights


@pytest.mark.parametrize("features", [32, 256, 352])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_regrouped_words_are_the_matrix_that_was_stored(features: int, kind: torch.dtype) -> None:
    torch.manual_seed(features)
    stored, scale = words(20, features), torch.rand(20, features // 32).to(kind)
    assert stays_packed(stored, scale)
    found = regrouped(torch.stack((stored, stored + 1)), torch.stack((scale, 2 * scale)))
    assert found.shape == (2, 20, features)
    assert found.matrix(0, kind).equal(dequantise(stored, scale))
    assert found.matrix(1, kind).equal(dequantise(stored + 1, 2 * scale))


def test_groups_that_cut_a_row_of_lanes_stay_floats() -> None:
    assert not stays_packed(words(4, 64), torch.ones(4, 4))
    assert not stays_packed(words(4, 64), torch.ones(4, 3))
    assert stays_packed(words(4, 64), torch.ones(4, 1))


def test_int4_experts_are_what_they_unpack_to() -> None:
    x, stacks, chosen, weights = packed((9, 256, 96, 4, 4), torch.bfloat16)
    gate_up, down = (
        torch.stack([stack.matrix(expert, torch.float32) for expert in range(4)])
        for stack in stacks
    )
    found = expert_mlp(x, stacks, chosen, weights, x)
    assert found.equal(expert_mlp(x, (gate_up, down), chosen, weights, x))


@interpreted
@pytest.mark.parametrize("sizes", PACKED, ids=str)
def test_the_kernels_unpack_int4_as_the_reference_does(sizes: tuple[int, ...]) -> None:
    x, stacks, chosen, weights = packed(sizes, torch.float32)
    with kernels_everywhere(), poison():
        got = expert_mlp(x, stacks, chosen, weights, x)
    close(got, expert_mlp(x, stacks, chosen, weights, x))


@interpreted
def test_half_precision_unpacks_to_the_same_numbers() -> None:
    x, stacks, chosen, weights = packed((9, 256, 32, 4, 4), torch.float16)
    wanted = expert_mlp(x, stacks, chosen, weights, x)
    with kernels_everywhere():
        got = expert_mlp(x.half(), stacks, chosen, weights, x.half())
    assert (got.float() - wanted).norm() < 2e-3 * wanted.norm()


def test_the_bits_of_a_number_are_the_last_ones_of_a_float() -> None:
    """What the kernels' `numbers` relies on; the interpreter cannot compute with bfloat16."""
    bits = torch.arange(16)
    for magic, kind, whole in (
        (0x4300, torch.bfloat16, torch.int16),
        (0x6400, torch.float16, torch.int16),
        (0x4B000000, torch.float32, torch.int32),
    ):
        bias = {torch.bfloat16: 136.0, torch.float16: 1032.0, torch.float32: 8388616.0}[kind]
        found = (bits | magic).to(whole).view(kind) - bias
        assert found.tolist() == list(range(-8, 8))


@interpreted
def test_an_int4_tokens_bits_do_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are as many in each: numpy's products round unlike each other by it, a GPU's do not."""
    monkeypatch.setattr(launch, "LONE_ROWS", launch.ROWS)
    x, stacks, chosen, weights = packed((11, 96, 32, 3, 2), torch.float32)
    with kernels_everywhere():
        together = expert_mlp(x, stacks, chosen, weights, x)
        for at in (0, 5, 10):
            one = slice(at, at + 1)
            alone = expert_mlp(x[one], stacks, chosen[one], weights[one], x[one])
            assert alone.equal(together[one])


@interpreted
@pytest.mark.parametrize(("tokens", "active", "experts"), [(5, 1, 1), (9, 8, 384), (70, 2, 4)])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["all here", "some elsewhere"])
def test_every_pair_is_in_one_tile_of_its_expert(
    tokens: int, active: int, experts: int, elsewhere: object
) -> None:
    torch.manual_seed(tokens)
    chosen = torch.randn(tokens, experts).topk(active).indices
    if elsewhere:
        chosen[torch.rand(chosen.shape) < 0.4] = experts
    with poison():
        cut = launch.tiles(chosen, experts)
    flat, placed = chosen.flatten(), []
    for owner, pairs in zip(cut.owner.tolist(), cut.pairs.tolist(), strict=True):
        if owner < experts:
            own = [pair for pair in pairs if pair >= 0]
            assert own == pairs[: len(own)] and set(flat[own].tolist()) == {owner}
            placed += own
    wanted = flat.argsort(stable=True)
    assert placed == wanted[flat[wanted] < experts].tolist()
    assert cut.owner.tolist() == sorted(cut.owner.tolist())


def test_a_few_tokens_pairs_are_tiles_themselves() -> None:
    chosen = torch.tensor([[3, 1], [2, 3]])
    cut = launch.tiles(chosen, 4)
    assert cut.lone and cut.owner.tolist() == [3, 1, 2, 3]

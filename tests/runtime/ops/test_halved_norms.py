"""A norm that the products beside it do: interpreted, held against the norm and the reference."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.half_norm import BLOCK, Begun, Half, begin
from ddtree.ops.linear import gated_linear, launch, linear, linear_and_half
from ddtree.ops.rms_norm import rms_norm
from tests.runtime.ops.interpreted import close, interpreted, poison, poisoned

SIZES = [(1, 70, 96), (9, 64, 600), (17, 130, 450), (33, 10, 64), (129, 65, 200)]  # M, N, K
TILES = [
    launch.Blocks(16, 16, 2, 2, whole=False),
    launch.Blocks(16, 32, 2, 2, whole=True),
    launch.Blocks(64, 16, 4, 2, whole=False, beside=16),
    launch.Blocks(64, 32, 4, 2, whole=True, beside=16),
    launch.Blocks(128, 64, 8, 2, whole=False),
]


def data(m: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    """x, weight, residual, weight of the norm."""
    torch.manual_seed(m)
    return torch.randn(m, k), torch.randn(n, k) / k**0.5, torch.randn(m, n), torch.randn(n)


def near(got: Half, wanted: Half) -> None:
    close(got.x, wanted.x)
    torch.testing.assert_close(got.squares, wanted.squares)
    assert got.eps == wanted.eps


@pytest.mark.parametrize(("m", "n"), [(1, 70), (17, 64), (3, 4100)], ids=str)
def test_two_halves_are_a_norm(m: int, n: int) -> None:
    h, weight = torch.randn(2, m, n), torch.randn(40, n) / n**0.5
    norm = torch.randn(n)
    half = begin(h, norm, 1e-3)
    whole = rms_norm(h, norm, 1e-3)
    close(half.x * half.scale, whole)
    close(linear(half, weight), linear(whole, weight))
    close(gated_linear(half, weight), gated_linear(whole, weight))


@interpreted
@pytest.mark.parametrize(("m", "n", "k"), SIZES, ids=str)
def test_products_begin_a_norm_and_end_it(m: int, n: int, k: int) -> None:
    x, weight, residual, norm = data(m, n, k)
    stacked = torch.randn(100, n) / n**0.5
    with poison(), kernels_everywhere():
        h, half = linear_and_half(x, weight, residual, norm, 1e-5)
        plain, inner = linear(half, stacked), gated_linear(half, stacked)
        again = linear(half, stacked, plain)
    wanted, begun = linear_and_half(x, weight, residual, norm, 1e-5)
    close(h, wanted)
    near(half, begun)
    close(plain, linear(begun, stacked))
    close(inner, gated_linear(begun, stacked))
    close(again, linear(begun, stacked, plain))


@interpreted
@pytest.mark.parametrize("n", [70, 1000])
def test_no_tile_changes_a_bit_of_either_half(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers so few that every order of a product's sum is exact: what is left is the norm's."""
    monkeypatch.setattr(launch, "cut", lambda rows, k: launch.Cut(span=64, splits=2))
    m, k = 20, 128
    torch.manual_seed(n)
    x, weight = torch.randint(-3, 4, (m, k)) / 4, torch.randint(-3, 4, (n, k)) / 4
    residual, norm = torch.randn(m, n), torch.randn(n)
    found = []
    for blocks in TILES:
        begun = Begun(poisoned(m, n), Half(poisoned(m, n), poisoned(m, -(-n // BLOCK)), 1e-5), norm)
        launch.run(x, weight, begun, launch.RESIDUAL, residual, blocks)
        found.append(begun)
    for begun in found[1:]:
        assert torch.equal(begun.h, found[0].h)
        assert torch.equal(begun.half.x, found[0].half.x)
        assert torch.equal(begun.half.squares, found[0].half.squares)
    near(found[0].half, begin(linear(x, weight, residual), norm, 1e-5))


@interpreted
@pytest.mark.parametrize("blocks", TILES, ids=str)
@pytest.mark.parametrize("k", [576, 200], ids=["even", "odd"])
def test_splits_and_tiles_end_a_norm(
    blocks: launch.Blocks, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "cut", lambda rows, k: launch.Cut(-(-k // 128) * 64, splits=2))
    x, weight, *_ = data(20, 100, k)
    half = begin(x, torch.randn(k), 1e-5)
    out, gate = poisoned(20, 100), poisoned(20, 50)
    launch.run(half, weight, out, launch.PLAIN, blocks=blocks)
    close(out, linear(half, weight))
    launch.run(half, weight, gate, launch.GATED, blocks=blocks)
    close(gate, gated_linear(half, weight))
    assert int(launch.counts(x.device).abs().sum()) == 0

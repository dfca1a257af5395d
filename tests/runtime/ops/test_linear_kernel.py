"""The skinny product, interpreted, agrees with the reference at sizes that fit no tile."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.ops.backend import Limits, kernels_everywhere, pretending
from ddtree.ops.linear import gated_linear, launch, linear, linear_pair
from tests.runtime.ops.interpreted import close, interpreted, poisoned

pytestmark = interpreted
SIZES = [(1, 70, 96), (9, 64, 600), (17, 130, 450), (33, 10, 64), (129, 65, 200)]  # M, N, K
BESIDE = [(1, 16, 0), (20, 16, 16), (33, 32, 16), (81, 64, 16)]  # M, tokens, more beside them


def data(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(m)
    return torch.randn(m, k), torch.randn(n, k) / k**0.5


@pytest.mark.parametrize(("m", "n", "k"), SIZES, ids=str)
def test_products_and_residuals(m: int, n: int, k: int) -> None:
    x, weight = data(m, n, k)
    residual = torch.randn(m, n)
    with kernels_everywhere():
        plain, added = linear(x, weight), linear(x, weight, residual)
        logits = linear(x.half(), weight.half(), dtype=torch.float32)
    close(plain, linear(x, weight))
    close(added, linear(x, weight, residual))
    torch.testing.assert_close(logits, linear(x, weight), atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize(("m", "n", "k"), SIZES, ids=str)
def test_gated_products(m: int, n: int, k: int) -> None:
    x, weight = data(m, 2 * n, k)
    with kernels_everywhere():
        got = gated_linear(x, weight)
    close(got, gated_linear(x, weight))


@pytest.mark.parametrize(("m", "n", "f", "k"), [(1, 70, 40, 96), (17, 100, 33, 1200)], ids=str)
def test_a_plain_and_a_gated_product_in_one_launch(m: int, n: int, f: int, k: int) -> None:
    x, weight = data(m, n, k)
    stacked = torch.randn(2 * f, k) / k**0.5
    with kernels_everywhere():
        plain, inner = linear_pair(x, weight, stacked)
        logits, _ = linear_pair(x.half(), weight.half(), stacked.half(), dtype=torch.float32)
    close(plain, linear(x, weight))
    close(inner, gated_linear(x, stacked))
    torch.testing.assert_close(logits, linear(x, weight), atol=5e-3, rtol=5e-3)
    assert int(launch.counts(x.device).abs().sum()) == 0


@pytest.mark.parametrize("whole", [False, True], ids=["split", "whole"])
def test_every_element_is_written_and_the_counters_return_to_zero(whole: object) -> None:
    x, weight = data(20, 100, 1200)
    assert launch.cut(100, 1200).splits > 1
    out = poisoned(20, 100)
    for _ in range(2):
        blocks = launch.Blocks(64, 16, warps=4, stages=2, whole=bool(whole))
        launch.run(x, weight, out, launch.PLAIN, blocks=blocks)
        assert int(launch.counts(x.device).abs().sum()) == 0
    close(out, linear(x, weight))


@pytest.mark.parametrize(("m", "tokens", "beside"), BESIDE, ids=str)
@pytest.mark.parametrize("whole", [False, True], ids=["split", "whole"])
def test_a_tile_of_weights_meets_two_of_tokens(
    m: int, tokens: int, beside: int, whole: object
) -> None:
    x, weight = data(m, 100, 1200)
    residual = torch.randn(m, 100)
    blocks = launch.Blocks(64, tokens, 4, 2, bool(whole), beside)
    out, gate = poisoned(m, 100), poisoned(m, 50)
    launch.run(x, weight, out, launch.RESIDUAL, residual, blocks)
    close(out, linear(x, weight, residual))
    launch.run(x, weight, gate, launch.GATED, blocks=blocks)
    close(gate, gated_linear(x, weight))


@pytest.mark.parametrize("k", [1024, 600], ids=["even", "odd"])
def test_parts_side_by_side_are_summed_in_the_order_of_parts_in_sequence(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "cut", lambda rows, k: launch.Cut(span=128, splits=2, parts=4))
    x, weight = data(9, 20, k)
    residual = torch.randn(9, 20)
    added, inner = linear(x, weight, residual), gated_linear(x, weight)
    tiles = [launch.Blocks(16, 16, 4, 2, whole=False, abreast=True)]
    tiles += [replace(tiles[0], whole=True), replace(tiles[0], width=128)]
    tiles += [replace(tile, abreast=False) for tile in tiles]
    for mode, expected in ((launch.RESIDUAL, added), (launch.GATED, inner)):
        got = []
        for blocks in tiles:
            got.append(poisoned(*expected.shape))
            launch.run(x, weight, got[-1], mode, residual, blocks)
        close(got[0], expected)
        for one, other in ((0, 1), (0, 3), (0, 4), (2, 5)):  # of one width
            assert torch.equal(got[one], got[other])
    assert int(launch.counts(x.device).abs().sum()) == 0


LIMITS = [Limits(227 << 10, 132, one_rounding=True), Limits(99 << 10, 188, one_rounding=False)]


@pytest.mark.parametrize("device", LIMITS, ids=["sm_90", "sm_120"])
@pytest.mark.parametrize("mode", [launch.PLAIN, launch.GATED], ids=["plain", "gated"])
@pytest.mark.parametrize(
    ("n", "k"), [(576, 576), (576, 1536), (896, 7168), (1536, 1536), (4096, 4096)], ids=str
)
def test_every_number_of_tokens_has_a_tile_for_them(
    n: int, k: int, mode: int, device: Limits
) -> None:
    rows = 2 * n if mode == launch.GATED else n
    how = launch.cut(rows, k)
    small = set()
    for m in range(1, 300):
        with pretending(device):
            blocks = launch.choose(m, n, mode, torch.empty(m, k, dtype=torch.bfloat16))
        assert blocks.stages >= 2
        assert how.span % blocks.width == 0
        assert not blocks.abreast or how.parts == 4 == blocks.warps
        assert m > launch.MOST or n < 4096 or m <= blocks.tokens + blocks.beside
        small.add(blocks.rows < launch.TILE)
    assert len(small) == 1 or device.one_rounding


def test_a_weight_of_other_features_is_refused() -> None:
    with pytest.raises(ValueError, match="5 features do not fit weight"):
        linear(torch.zeros(1, 5), torch.zeros(3, 4))


@pytest.mark.parametrize("k", [64, 200, 256, 576, 1024, 1536, 2880, 4096, 7168, 12288])
@pytest.mark.parametrize("n", [64, 576, 960, 4096, 6144, 12288, 151936])
def test_a_cut_covers_all_of_k_and_no_split_is_empty(n: int, k: int) -> None:
    how = launch.cut(n, k)
    assert how.span * how.parts * how.splits >= k
    assert how.span * how.parts * (how.splits - 1) < k

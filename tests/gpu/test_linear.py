"""On a GPU in bf16, a row of a product has the same bits whatever rows are beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.ops.backend import limits
from ddtree.ops.linear import gated_linear, launch, linear, linear_and_half, linear_pair
from ddtree.ops.rms_norm import rms_norm

pytestmark = pytest.mark.gpu
WEIGHTS = [
    (960, 576),
    (576, 576),
    (576, 1536),
    (1536, 1536),
    (576, 2880),
    (384, 7168),
    (7168, 256),
    (7168, 1024),
    (2112, 7168),
    (6144, 4096),
    (4096, 4096),
    (4096, 12288),
    (1000, 200),
]


def data(n: int, k: int, rows: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(n + k)
    x = torch.randn(rows, k, device="cuda").bfloat16()
    return x, (torch.randn(n, k, device="cuda") / k**0.5).bfloat16()


@pytest.mark.parametrize(("n", "k"), WEIGHTS, ids=str)
def test_rows_do_not_know_each_other(n: int, k: int) -> None:
    x, weight = data(n, k)
    residual = torch.randn(600, n, device="cuda").bfloat16()
    every = linear(x, weight, residual)
    exact = x.float() @ weight.float().T + residual.float()
    assert (every.float() - exact).norm() / exact.norm() < 5e-3
    for m in (1, 9, 16, 17, 33, 49, 64, 65, 81, 97, 128, 129, 300):
        assert torch.equal(linear(x[:m], weight, residual[:m]), every[:m]), m
    for row in (7, 500):
        assert torch.equal(linear(x[row, None], weight, residual[row, None])[0], every[row])
    assert int(launch.counts(x.device).sum()) == 0


@pytest.mark.parametrize(
    ("n", "k"), [(1536, 576), (256, 7168), (2304, 7168), (12288, 4096)], ids=str
)
def test_gated_rows_do_not_know_each_other(n: int, k: int) -> None:
    x, weight = data(2 * n, k, rows=1088)
    every = gated_linear(x, weight)
    gate, up = (x.float() @ weight.float().T).chunk(2, -1)
    exact = torch.nn.functional.silu(gate) * up
    assert (every.float() - exact).norm() / exact.norm() < 5e-3
    for m in (1, 9, 17, 33, 64, 65, 81, 97, 129):
        assert torch.equal(gated_linear(x[:m], weight), every[:m]), m


@pytest.mark.parametrize(("n", "f", "k"), [(384, 256, 7168), (10, 40, 200)], ids=str)
def test_rows_of_a_pair_do_not_know_each_other(n: int, f: int, k: int) -> None:
    x, weight = data(n, k)
    _, stacked = data(2 * f, k)
    plain, inner = linear_pair(x, weight, stacked, dtype=torch.float32)
    exact = x.float() @ weight.float().T
    assert (plain - exact).norm() / exact.norm() < 1e-5
    gate, up = (x.float() @ stacked.float().T).chunk(2, -1)
    exact = torch.nn.functional.silu(gate) * up
    assert (inner.float() - exact).norm() / exact.norm() < 5e-3
    for m in (1, 9, 17, 33, 64, 65, 81, 129):
        few = linear_pair(x[:m], weight, stacked, dtype=torch.float32)
        assert torch.equal(few[0], plain[:m]), m
        assert torch.equal(few[1], inner[:m]), m
    assert int(launch.counts(x.device).sum()) == 0


@pytest.mark.parametrize(
    ("hidden", "inner"),
    [(576, 576), (576, 1536), (2048, 6144), (4096, 4096), (4096, 12288)],
    ids=str,
)
def test_rows_of_a_halved_norm_do_not_know_each_other(hidden: int, inner: int) -> None:
    x, down = data(hidden, inner, rows=2048)
    residual, behind = data(960, hidden, rows=2048)
    _, gate_up = data(2 * inner, hidden)
    norm = 1 + torch.randn(hidden, device="cuda").bfloat16() / 8
    every, half = linear_and_half(x, down, residual, norm, 1e-5)
    assert torch.equal(every, linear(x, down, residual))
    joint, inside = linear(half, behind), gated_linear(half, gate_up)
    whole = rms_norm(every, norm, 1e-5)
    for got, wanted in ((joint, linear(whole, behind)), (inside, gated_linear(whole, gate_up))):
        assert (got.float() - wanted.float()).norm() / wanted.float().norm() < 1e-2
    for m in (1, 9, 16, 17, 33, 49, 64, 65, 81, 97, 128, 129, 300, 512, 1088):
        h, few = linear_and_half(x[:m], down, residual[:m], norm, 1e-5)
        assert torch.equal(h, every[:m]), m
        assert torch.equal(few.x, half.x[:m]), m
        assert torch.equal(few.squares, half.squares[:m]), m
        assert torch.equal(linear(few, behind), joint[:m]), m
        assert torch.equal(gated_linear(few, gate_up), inside[:m]), m


def test_the_head_gives_float32_and_no_tile_changes_a_bit() -> None:
    x, weight = data(49152, 576, rows=65)
    logits = linear(x, weight, dtype=torch.float32)
    assert torch.equal(linear(x[:1], weight, dtype=torch.float32), logits[:1])
    exact = x.float() @ weight.float().T
    assert (logits - exact).norm() / exact.norm() < 1e-5
    tiles = ((64, 16, 4, 0), (64, 64, 4, 16), (64, 16, 4, 16), (128, 32, 4, 0), (128, 64, 8, 0))
    for rows, tokens, warps, beside in tiles:
        out = torch.full_like(logits, float("nan"))
        blocks = launch.Blocks(rows, tokens, warps, stages=3, whole=False, beside=beside)
        launch.run(x, weight, out, launch.PLAIN, blocks=blocks)
        assert torch.equal(out, logits), blocks


@pytest.mark.parametrize(("n", "k"), [(960, 576), (576, 1536), (576, 2880), (384, 7168)], ids=str)
def test_no_tile_of_a_narrow_weight_changes_a_bit(n: int, k: int) -> None:
    x, weight = data(n, k, rows=130)
    expected = linear(x, weight)
    tiles = [
        launch.Blocks(16, 16, 2, 8, whole=False),
        launch.Blocks(16, 32, 2, 3, whole=True),
        launch.Blocks(32, 64, 4, 4, whole=False),
        launch.Blocks(64, 64, 2, 4, whole=True),
    ]
    if limits(x.device).one_rounding:
        tiles += [
            launch.Blocks(64, 64, 4, 8, whole=False),
            launch.Blocks(64, 64, 4, 4, whole=True),
            launch.Blocks(128, 128, 8, 3, whole=True),
        ]
    how = launch.cut(n, k)
    if how.parts == 4:
        tiles += [
            launch.Blocks(16, 16, 4, 6, whole=False, abreast=True),
            launch.Blocks(16, 32, 4, 3, whole=True, abreast=True),
            launch.Blocks(32, 16, 4, 2, whole=False, abreast=True),
        ]
    if how.span % 128 == 0:
        tiles += [replace(tile, width=128, stages=2) for tile in tiles]
    for blocks in tiles:
        out = torch.full_like(expected, float("nan"))
        launch.run(x, weight, out, launch.PLAIN, blocks=blocks)
        assert torch.equal(out, expected), blocks

"""Each layer against the plain statement of what it computes, in float64."""

from __future__ import annotations

import pytest
import torch

from ddtree.layers.linear import Linear, packs
from ddtree.layers.norm import RmsNorm
from ddtree.layers.rotary import Rotary, rotate

CPU = torch.device("cpu")
ROWS = (1, 9, 17, 33)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("out", "width"), [(64, 64), (192, 64), (200, 40), (64, 192)])
def test_a_product_is_the_same_packed_or_not(rows: int, out: int, width: int) -> None:
    torch.manual_seed(out + rows)
    weight, x = torch.randn(out, width), torch.randn(2, rows, width)
    wanted = (x.double() @ weight.double().T).float()
    torch.testing.assert_close(Linear(weight)(x), wanted, rtol=1e-5, atol=1e-4)


def test_wide_float32_weights_are_packed_and_narrow_ones_are_not() -> None:
    if not torch.backends.mkldnn.enabled:
        pytest.skip("this torch has no oneDNN")
    assert packs(torch.empty(192, 64))
    assert not packs(torch.empty(64, 64))
    assert not packs(torch.empty(192, 64, dtype=torch.float64))


@pytest.mark.parametrize("rows", ROWS)
def test_a_bfloat16_product_rounds_once(rows: int) -> None:
    torch.manual_seed(rows)
    weight = torch.randn(192, 64).bfloat16()
    x = torch.randn(1, rows, 64).bfloat16()
    exact = x.double() @ weight.double().T
    error = (Linear(weight)(x).double() - exact).abs()
    assert (error <= exact.abs() * 2**-8 + 1e-3).all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_norm_divides_by_the_root_mean_square(scale: float) -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(2, 5, 48) * scale, torch.randn(48)
    exact = x.double()
    wanted = exact / (exact.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    torch.testing.assert_close(RmsNorm(weight, 1e-5)(x), wanted.float())


def test_the_norm_of_zeros_is_zero() -> None:
    assert RmsNorm(torch.ones(8), 1e-6)(torch.zeros(1, 8)).eq(0).all()


def test_each_head_has_its_own_norm_weights() -> None:
    x, weight = torch.randn(2, 3, 4, 8), torch.randn(4, 8)
    together = RmsNorm(weight, 1e-6)(x)
    for head in range(4):
        alone = RmsNorm(weight[head], 1e-6)(x[:, :, head])
        torch.testing.assert_close(together[:, :, head], alone)


def test_rotation_turns_pairs_half_a_head_apart_by_position_times_frequency() -> None:
    torch.manual_seed(2)
    size, theta = 16, 1e4
    positions = torch.tensor([[0, 1, 700, 8000]])
    x = torch.randn(1, 4, 3, size)
    turned = rotate(x, Rotary(size, theta, CPU)(positions, torch.float32))
    frequency = theta ** (-torch.arange(0, size, 2).double() / size)
    angle = positions.double()[..., None, None] * frequency  # [1, 4, 1, D / 2]
    pair = torch.complex(x[..., : size // 2].double(), x[..., size // 2 :].double())
    wanted = pair * torch.polar(torch.ones_like(angle), angle)
    # float32 angles are 5e-4 off at position 8000, as they are in every engine
    got = torch.complex(turned[..., : size // 2].double(), turned[..., size // 2 :].double())
    torch.testing.assert_close(got, wanted, rtol=0, atol=5e-3)


def test_scores_depend_on_the_distance_only() -> None:
    torch.manual_seed(3)
    q, k = torch.randn(1, 1, 1, 32), torch.randn(1, 1, 1, 32)
    rotary = Rotary(32, 1e4, CPU)

    def score(at: int, seen: int) -> float:
        angles = [rotary(torch.tensor([[p]]), torch.float32) for p in (at, seen)]
        return float((rotate(q, angles[0]) * rotate(k, angles[1])).sum())

    assert score(7, 3) == pytest.approx(score(107, 103), abs=1e-3)
    assert score(7, 3) != pytest.approx(score(7, 4), abs=1e-3)

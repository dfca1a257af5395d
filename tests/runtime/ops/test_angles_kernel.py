"""Rotary angles, interpreted, are the reference's to the last bits of a sine."""

from __future__ import annotations

import pytest
import torch

from ddtree.layers.rotary import frequencies
from ddtree.ops.angles import angles
from ddtree.ops.backend import kernels_everywhere
from tests.runtime.ops.interpreted import interpreted

pytestmark = interpreted


@pytest.mark.parametrize("dim", [64, 80, 128])
@pytest.mark.parametrize("amplitude", [1.0, 1.28])
def test_positions_near_and_far(dim: int, amplitude: float) -> None:
    half = frequencies(dim, 1e4)
    frequency = torch.cat((half, half))
    positions = torch.tensor([[0, 1, 2, 77], [1000, 8191, 40_000, 131_071]])
    expected = angles(positions, frequency, amplitude, torch.float32)
    with kernels_everywhere():
        got = angles(positions, frequency, amplitude, torch.float32)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == (2, 4, 1, dim)
        torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-6)

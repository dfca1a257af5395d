"""Rotary angles of positions: what every layer of a forward rotates by."""

from __future__ import annotations

import torch

from ddtree.ops.angles.reference import turns
from ddtree.ops.backend import uses_kernel

Pair = tuple[torch.Tensor, torch.Tensor]


def angles(
    positions: torch.Tensor, frequency: torch.Tensor, amplitude: float, dtype: torch.dtype
) -> Pair:
    """cos and sin [B, N, 1, D] of positions [B, N] int64 by frequency [D] float32.

    Computed in float32, times `amplitude`, rounded to `dtype`. The first half of sin is negated.
    """
    if uses_kernel(positions):
        from ddtree.ops.angles import launch

        return launch.turns(positions, frequency, amplitude, dtype)
    return turns(positions, frequency, amplitude, dtype)

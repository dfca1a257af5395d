"""Rotary positions in the half-split order of Hugging Face's Llama."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Angles:
    """What all layers of one forward rotate by. The first half of `sin` is negated."""

    cos: torch.Tensor  # [B, N, 1, D]
    sin: torch.Tensor  # [B, N, 1, D]


class Rotary(nn.Module):
    """Angles from positions, computed in float32 whatever the weights are.

    No table over all positions: a forward needs at most a few hundred rows of it.
    """

    def __init__(self, head_dim: int, theta: float, device: torch.device) -> None:
        super().__init__()
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
        frequency = 1.0 / theta**exponent  # [D / 2], in this order of operations: angles grow with
        # the position, and another rounding here shows at position 8000
        self.frequency = torch.cat((frequency, frequency))  # [D]
        sign = torch.ones(head_dim, device=device)
        sign[: head_dim // 2] = -1
        self.sign = sign

    def forward(self, positions: torch.Tensor, dtype: torch.dtype) -> Angles:  # [B, N] int64
        angle = positions[..., None, None] * self.frequency  # [B, N, 1, D]
        return Angles(angle.cos().to(dtype), (angle.sin() * self.sign).to(dtype))


def rotate(x: torch.Tensor, angles: Angles) -> torch.Tensor:
    """x [B, N, H, D] turned by the angles of its position."""
    halves = x.view(*x.shape[:-1], 2, -1)  # [B, N, H, 2, D / 2]
    swapped = halves.flip(-2).flatten(-2)
    return torch.addcmul(x * angles.cos, swapped, angles.sin)

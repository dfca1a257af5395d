"""Rotary positions in the half-split order of Hugging Face's Llama."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from ddtree.config import ModelShape, RopeScaling
from ddtree.ops.angles import angles


@dataclass(frozen=True)
class Angles:
    """What all layers of one forward rotate by. The first half of `sin` is negated."""

    cos: torch.Tensor  # [B, N, 1, D]
    sin: torch.Tensor  # [B, N, 1, D]


class Rotary(nn.Module):
    """Angles from positions, computed in float32 whatever the weights are.

    No table over all positions: a forward needs at most a few hundred rows of it.
    """

    def __init__(
        self,
        head_dim: int,
        theta: float,
        device: torch.device,
        scaling: RopeScaling | None = None,
    ) -> None:
        super().__init__()
        frequency = frequencies(head_dim, theta, scaling).to(device)
        self.frequency = torch.cat((frequency, frequency))  # [D]
        self.amplitude = scaling.amplitude if scaling is not None else 1.0

    def forward(self, positions: torch.Tensor, dtype: torch.dtype) -> Angles:  # [B, N] int64
        return Angles(*angles(positions, self.frequency, self.amplitude, dtype))


def rotary_of(shape: ModelShape, device: torch.device) -> Rotary:
    turned = shape.head_dim if shape.latent is None else shape.latent.rope_dim
    return Rotary(turned, shape.rope_theta, device, shape.rope_scaling)


def frequencies(head_dim: int, theta: float, scaling: RopeScaling | None = None) -> torch.Tensor:
    """Radians a position of each pair: [D / 2] float32.

    Roundings are transformers': angles grow with the position, and another order of operations
    here shows at position 8000.
    """
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    plain = 1.0 / theta**exponent
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "table":
        return plain / torch.tensor(scaling.divisors)
    if scaling.kind == "llama3":
        kept = _kept_by_turns(plain, scaling)
    else:
        kept = _kept_by_pair(head_dim, theta, scaling)
    return plain / scaling.factor * (1 - kept) + plain * kept


def _kept_by_turns(plain: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Llama 3: how much of each frequency stays, linear in its turns."""
    turns = scaling.original_positions * plain / (2 * math.pi)
    return ((turns - scaling.slow) / (scaling.fast - scaling.slow)).clamp(0, 1)


def _kept_by_pair(head_dim: int, theta: float, scaling: RopeScaling) -> torch.Tensor:
    """YaRN (arXiv 2309.00071): the same, linear in the index of the pair."""

    def pair_with(turns: float) -> float:
        longest = scaling.original_positions / (turns * 2 * math.pi)
        return head_dim * math.log(longest) / (2 * math.log(theta))

    first, last = pair_with(scaling.fast), pair_with(scaling.slow)
    if scaling.whole_pairs:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    ramp = (torch.arange(head_dim // 2, dtype=torch.float32) - first) / max(last - first, 1e-3)
    return 1 - ramp.clamp(0, 1)


def rotate(x: torch.Tensor, by: Angles) -> torch.Tensor:
    """x [B, N, H, D] turned by the angles of its position."""
    halves = x.view(*x.shape[:-1], 2, -1)  # [B, N, H, 2, D / 2]
    swapped = halves.flip(-2).flatten(-2)
    return torch.addcmul(x * by.cos, swapped, by.sin)

"""Sampling in torch. One uniform number per (seed, position): the tree's shape never matters.

Two nodes at the same position share their number. Only one of them can lie on the accepted
path, and which one was decided by earlier numbers, so every draw on the path is independent:
the walk is exact ancestral sampling, and a seed gives the same tokens at every budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_MASK32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Chance:
    """What decides the uniform number of each node: its row's seed, and the position after it."""

    seed: torch.Tensor  # [B] int64
    position: torch.Tensor  # [B, N] integers, of the node itself

    @property
    def draw(self) -> torch.Tensor:
        """[B, N] float64."""
        return uniform(self.seed.unsqueeze(1), self.position.long() + 1)


@dataclass(frozen=True)
class Chosen:
    """What the target says next."""

    tokens: torch.Tensor  # [B, N] int64
    peak: torch.Tensor  # [B, N] float32, the largest logit; NaN where any is


@dataclass(frozen=True)
class Filters:
    """What keeps only some tokens, each [B] or None when no row uses it. See `ops.sample`."""

    top_p: torch.Tensor | None  # float32
    top_k: torch.Tensor | None = None  # int64, 0 keeps all
    min_p: torch.Tensor | None = None  # float32

    @property
    def any(self) -> bool:
        return any(part is not None for part in (self.top_p, self.top_k, self.min_p))


def _mix(x: torch.Tensor) -> torch.Tensor:
    """A bijective scramble of 32-bit integers held in int64 (multiply, xor, shift)."""
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & _MASK32
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & _MASK32
    return x ^ (x >> 16)


def uniform(seed: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """One number in (0, 1), float64, for each pair of int64s; same shape as the broadcast."""
    low, high = seed & _MASK32, (seed >> 32) & _MASK32
    key = _mix(low ^ _mix(high ^ 0x9E3779B9))
    first = _mix(key ^ _mix(position & _MASK32))
    second = _mix(first ^ _mix((position + 0x7F4A7C15) & _MASK32))
    bits = (first << 20) | (second >> 12)  # 52 bits
    return (bits.to(torch.float64) + 0.5) / 2.0**52


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    draw: torch.Tensor,
    filters: Filters,
) -> torch.Tensor:
    """The tokens of `ops.sample.sample`, by draw [B, N] float64."""
    best = logits.argmax(-1)  # [B, N]
    hot = temperature.clamp(min=1e-6)[:, None, None]
    probabilities = torch.softmax(logits.double() / hot, -1)  # [B, N, V]
    if filters.any:
        probabilities = _filtered(probabilities, filters)
    total = probabilities.cumsum(-1)
    point = draw.unsqueeze(-1) * total[..., -1:]
    drawn = torch.searchsorted(total, point, right=True).squeeze(-1)
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    return best.where((temperature == 0).unsqueeze(1), drawn)


def _filtered(probabilities: torch.Tensor, filters: Filters) -> torch.Tensor:
    """Zero what the filters drop, in this order. The most probable token always stays."""
    ordered, order = torch.sort(probabilities, dim=-1, descending=True, stable=True)
    kept = torch.ones_like(ordered, dtype=torch.bool)
    if filters.min_p is not None:
        kept &= ordered >= filters.min_p[:, None, None] * ordered[..., :1]
    if filters.top_k is not None:
        rank = torch.arange(ordered.shape[-1], device=ordered.device)
        limit = filters.top_k[:, None, None]
        kept &= (rank < limit) | (limit == 0)
    if filters.top_p is not None:
        left = ordered.where(kept, 0.0)
        before = left.cumsum(-1) - left
        kept &= before < filters.top_p[:, None, None] * left.sum(-1, keepdim=True)
    kept[..., 0] = True
    return torch.zeros_like(probabilities).scatter(-1, order, ordered.where(kept, 0.0))

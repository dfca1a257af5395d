"""Sampling in torch. One uniform number per (seed, position): the tree's shape never matters.

Two nodes at the same position share their number. Only one of them can lie on the accepted
path, and which one was decided by earlier numbers, so every draw on the path is independent:
the walk is exact ancestral sampling, and a seed gives the same tokens at every budget.
"""

from __future__ import annotations

from typing import Literal

import torch

Method = Literal["greedy", "full", "nucleus"]
_MASK32 = 0xFFFFFFFF


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
    top_p: torch.Tensor,
    draw: torch.Tensor,
    *,
    method: Method,
) -> torch.Tensor:
    """Choose a token [B, N] int64 from logits [B, N, V] float32.

    temperature [B]: 0 is argmax (the first of equals). top_p [B]: the smallest set of most
    probable tokens whose sum reaches it. draw [B, N] float64: the uniform number of each node.
    `method` is what the host knows of the rows, so that no step has to ask the device: `greedy`
    ignores all three, `full` ignores top_p, `nucleus` serves every row.
    """
    best = logits.argmax(-1)  # [B, N]
    if method == "greedy":
        return best
    hot = temperature.clamp(min=1e-6)[:, None, None]
    probabilities = torch.softmax(logits.double() / hot, -1)  # [B, N, V]
    if method == "nucleus":
        probabilities = _nucleus(probabilities, top_p)
    total = probabilities.cumsum(-1)
    point = draw.unsqueeze(-1) * total[..., -1:]
    drawn = torch.searchsorted(total, point, right=True).squeeze(-1)
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    return best.where((temperature == 0).unsqueeze(1), drawn)


def _nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero what lies outside the nucleus. The most probable token always stays."""
    ordered, order = torch.sort(probabilities, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = ordered.where(before < top_p[:, None, None], 0.0)
    return torch.zeros_like(probabilities).scatter(-1, order, kept)

"""Rotary angles in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch


def turns(
    positions: torch.Tensor, frequency: torch.Tensor, amplitude: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `angles`."""
    angle = positions[..., None, None] * frequency  # [B, N, 1, D]
    cos, sin = angle.cos() * amplitude, angle.sin() * amplitude
    sin[..., : frequency.shape[0] // 2].neg_()
    return cos.to(dtype), sin.to(dtype)

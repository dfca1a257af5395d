"""The norm in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch


def normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / rms(x) * weight, computed in float32 and rounded once."""
    wide = x.float()
    mean = wide.square().mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)

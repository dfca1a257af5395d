"""Head norm, rotary positions and the write of keys and values in torch: the definition."""

from __future__ import annotations

import torch

from ddtree.ops.rms_norm.reference import normed


def turned(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """x [..., H, D] normed by head and rotated in float32, rounded once."""
    wide = x.float()
    if weight is not None:
        wide = normed(wide, weight.float(), eps)
    low, high = torch.chunk(wide, 2, -1)
    return (wide * cos.float() + torch.cat([high, low], -1) * sin.float()).to(x.dtype)

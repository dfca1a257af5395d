"""What a token leaves in the cache of latents, in torch: the definition."""

from __future__ import annotations

import torch

from ddtree.ops.rms_norm.reference import normed
from ddtree.ops.rope_kv.reference import turned as turned_and_normed


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [B, N, H, D] rotated in float32, rounded once."""
    return turned_and_normed(x, cos, sin, None, 0.0)


def entries(
    joint: torch.Tensor,  # [B, N, C]
    angles: tuple[torch.Tensor, torch.Tensor],
    norm: tuple[torch.Tensor, float],
) -> torch.Tensor:
    """Normed latents and rotated keys side by side: [B, N, C]."""
    weight, eps = norm
    latent, key = torch.split(joint, [len(weight), joint.shape[-1] - len(weight)], dim=-1)
    rotated = turned(key.unsqueeze(2), *angles).squeeze(2)
    return torch.cat((normed(latent, weight, eps), rotated), dim=-1)

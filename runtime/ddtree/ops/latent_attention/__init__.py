"""Attention of every head over one latent a token, in the paged cache and among the new tokens.

In torch. There is no kernel yet, and plans made for kernels do not fit.
"""

from __future__ import annotations

import torch

from ddtree.ops.latent_attention.reference import attend
from ddtree.ops.tree_attention import AttentionPlan


def write_latents(latents: torch.Tensor, new: torch.Tensor, plan: AttentionPlan) -> None:
    """Write new [B, N, C] into one layer's latents [slots, 1, C]."""
    latents.index_copy_(0, plan.write_slots.flatten(), new.flatten(0, 1).unsqueeze(1))


def latent_attention(
    q: torch.Tensor, latents: torch.Tensor, plan: AttentionPlan, rank: int, scale: float
) -> torch.Tensor:
    """Attention [B, N, Hq, rank] of q [B, N, Hq, C] over latents [slots, 1, C].

    A latent is the key of every head, and its first `rank` numbers the value. Scores are
    multiplied by `scale`. `latents` hold the new tokens already (`write_latents`). Raises
    ValueError for a plan made for kernels.
    """
    if plan.read_slots is None or plan.visible is None:
        raise ValueError("latent attention has no kernel: plan it on the CPU")
    return attend(q, latents[plan.read_slots].squeeze(2), plan.visible, rank, scale)

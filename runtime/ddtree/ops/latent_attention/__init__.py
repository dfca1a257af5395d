"""Attention of every head over one latent a token, in the paged cache and among the new tokens.

On CUDA a token's result has the same bits whatever other tokens are beside it, as in
`ops.tree_attention`, whose plans these are.
"""

from __future__ import annotations

import torch

from ddtree.ops.latent_attention.reference import attend
from ddtree.ops.tree_attention import AttentionPlan

LEAST = 16  # numbers that a product of the kernels sums at least


def has_kernel(rank: int, rope_dim: int) -> bool:
    """Whether the kernels take latents of these sizes: powers of two that fill a product."""
    return all(size >= LEAST and size & (size - 1) == 0 for size in (rank, rope_dim))


def latent_attention(
    q: torch.Tensor, latents: torch.Tensor, plan: AttentionPlan, rank: int, scale: float
) -> torch.Tensor:
    """Attention [B, N, Hq, rank] of q [B, N, Hq, C] over latents [slots, 1, C].

    A latent is the key of every head, and its first `rank` numbers the value. Scores are
    multiplied by `scale`. `latents` hold the new tokens already (`rope_latents`). Raises
    ValueError for a plan made for kernels and sizes that they do not take.
    """
    if plan.paged is not None:
        from ddtree.ops.latent_attention import launch

        if not has_kernel(rank, q.shape[-1] - rank):
            raise ValueError(f"no kernel for latents of {rank} + {q.shape[-1] - rank} numbers")
        out = q.new_empty(*q.shape[:-1], rank)
        launch.attend(q.contiguous(), latents, plan.paged, scale, out)
        return out
    assert plan.read_slots is not None and plan.visible is not None, "made without a kernel"
    return attend(q, latents[plan.read_slots].squeeze(2), plan.visible, rank, scale)

"""Attention of every head over one latent a token, in the paged cache and among the new tokens.

On CUDA a token's result has the same bits whatever other tokens are beside it, as in
`ops.tree_attention`, whose plans these are.
"""

from __future__ import annotations

import torch

from ddtree.ops.head_linear import head_linear
from ddtree.ops.latent_attention.reference import attend
from ddtree.ops.tree_attention import AttentionPlan

LEAST = 16  # numbers that a product of the kernels sums at least
# Rows (token, head) whose values are made where their states are summed. us for 8 heads at 2,048
# positions, H200, three launches / two: 1 token 14.8 / 12.8, 9 tokens 17.0 / 17.9, 33 35.5 / 41.4;
# since then states are summed in 0.7 less with 1 token by two, and in 1.0 less with 9 by three.
FEW = 16


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

        _check(q, rank)
        out = q.new_empty(*q.shape[:-1], rank)
        launch.attend(q.contiguous(), latents, plan.paged, scale, out)
        return out
    assert plan.read_slots is not None and plan.visible is not None, "made without a kernel"
    return attend(q, latents[plan.read_slots].squeeze(2), plan.visible, rank, scale)


def latent_values(
    q: torch.Tensor,
    latents: torch.Tensor,
    plan: AttentionPlan,
    scale: float,
    value_up: torch.Tensor,
) -> torch.Tensor:
    """`latent_attention`, and each head's result by its value_up [Hq, V, rank]: [B, N, Hq, V].

    Two launches instead of three where rows are few; a token's bits are those of three.
    """
    rank = value_up.shape[-1]
    if plan.paged is None or q.shape[:-1].numel() > FEW:
        return head_linear(latent_attention(q, latents, plan, rank, scale), value_up)
    from ddtree.ops.latent_attention import launch
    from ddtree.ops.latent_values.launch import values

    _check(q, rank)
    out = q.new_empty(*q.shape[:-1], value_up.shape[1])
    values(launch.states(q.contiguous(), latents, plan.paged, scale, rank), value_up, out)
    return out


def _check(q: torch.Tensor, rank: int) -> None:
    if not has_kernel(rank, q.shape[-1] - rank):
        raise ValueError(f"no kernel for latents of {rank} + {q.shape[-1] - rank} numbers")

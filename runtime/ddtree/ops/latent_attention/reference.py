"""Latent attention in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch
from torch.nn import functional


def attend(
    q: torch.Tensor,  # [B, N, Hq, C]
    latents: torch.Tensor,  # [B, L, C]
    visible: torch.Tensor,  # [B, N, L] bool
    rank: int,
    scale: float,
) -> torch.Tensor:
    """softmax(scale q k^T) v with k = latents, v their first `rank` numbers: [B, N, Hq, rank].

    Heads stand where queries do, so that no key is repeated for them.
    """
    batch, new, heads, _ = q.shape
    k = latents.unsqueeze(1)  # [B, 1, L, C]
    out = functional.scaled_dot_product_attention(
        q.flatten(1, 2).unsqueeze(1),  # [B, 1, N Hq, C]
        k,
        k[..., :rank],
        attn_mask=visible.repeat_interleave(heads, dim=1).unsqueeze(1),
        scale=scale,
    )
    return out.view(batch, new, heads, rank)

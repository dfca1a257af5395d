"""Tree attention in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch
from torch.nn import functional

from ddtree.ops.bitmask import unpack


def visibility(
    start: torch.Tensor, new: int, longest: int, pattern: str | torch.Tensor
) -> torch.Tensor:
    """Which of the positions 0 .. longest - 1 each new token sees: [B, N, L] bool."""
    device = start.device
    positions = torch.arange(longest, device=device)  # [L]
    prefix = positions < start.unsqueeze(1)  # [B, L]
    if isinstance(pattern, torch.Tensor):
        among = unpack(pattern, new)  # [B, N, N]
    elif pattern == "causal":
        among = torch.ones(new, new, dtype=torch.bool, device=device).tril()
        among = among.expand(start.shape[0], -1, -1)
    else:
        among = torch.ones(start.shape[0], new, new, dtype=torch.bool, device=device)
    offset = positions - start.unsqueeze(1)  # [B, L]
    inside = (offset >= 0) & (offset < new)  # [B, L]
    column = offset.clamp(0, new - 1).unsqueeze(1).expand(-1, new, -1)  # [B, N, L]
    return prefix.unsqueeze(1) | (among.gather(2, column) & inside.unsqueeze(1))


def near(queries: torch.Tensor, keys: torch.Tensor, pattern: str, window: int) -> torch.Tensor:
    """Which keys at positions [B, L] the queries at [B, N] see within a window: [B, N, L] bool."""
    distance = queries.unsqueeze(2) - keys.unsqueeze(1)  # [B, N, L]
    ahead = distance >= 0 if pattern == "causal" else distance > -window
    return ahead & (distance < window) & (keys >= 0).unsqueeze(1)


def attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    read_slots: torch.Tensor,
    visible: torch.Tensor,
) -> torch.Tensor:
    """softmax(q k^T / sqrt(D)) v over the visible positions: [B, N, Hq, D]."""
    k = keys[read_slots]  # [B, L, Hkv, D]
    v = values[read_slots]
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=visible.unsqueeze(1),
        enable_gqa=True,
    )
    return out.transpose(1, 2)

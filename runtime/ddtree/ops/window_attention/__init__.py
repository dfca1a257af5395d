"""Paged attention of a few new tokens to the keys near them, for the layers of a drafter.

`ops.tree_attention` plans it (`plan_window`) and has its definition in torch; these are kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ddtree.ops.tree_attention.launch import Paged


def window_attention(
    q: torch.Tensor,
    kv: tuple[torch.Tensor, torch.Tensor],
    paged: Paged,
    window: int,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention [B, N, Hq, D] of q [B, N, Hq, D] over keys less than `window` positions away.

    kv are keys and values [slots, Hkv, D]. A row's result knows no other row of the batch.
    """
    from ddtree.ops.window_attention import launch

    out = torch.empty_like(q) if out is None else out
    launch.attend(q.contiguous(), kv, paged, window, out)
    return out

"""Who sees whom while training: a block sees the context before its root, and itself.

Keys are the L positions of the context, then the A blocks of b positions each; queries the blocks.
Flex attention skips what nobody sees, but only compiled; elsewhere a plain mask does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

Sight = torch.Tensor | BlockMask


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sight: Sight) -> torch.Tensor:
    """q [B, Hq, A b, D] over k, v [B, Hkv, L + A b, D]: [B, Hq, A b, D]."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    if isinstance(sight, BlockMask):
        out: torch.Tensor = flex_attention(q, k, v, block_mask=sight)
        return out
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=sight)


def dense(anchors: torch.Tensor, context: int, block: int) -> torch.Tensor:
    """The mask [B, 1, A b, L + A b] for roots at anchors [B, A]."""
    root = anchors.repeat_interleave(block, 1).unsqueeze(2)  # [B, A b, 1]
    before = torch.arange(context, device=anchors.device) < root  # [B, A b, L]
    number = torch.arange(anchors.shape[1], device=anchors.device).repeat_interleave(block)
    own = (number.unsqueeze(1) == number).expand(len(anchors), -1, -1)
    return torch.cat([before, own], 2).unsqueeze(1)


def sparse(anchors: torch.Tensor, context: int, block: int, *, compiled: bool = True) -> BlockMask:
    """The same for flex attention. Shapes must stay the same from step to step."""

    def sees(b: torch.Tensor, _: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        own = (k - context) // block == q // block
        return torch.where(k < context, k < anchors[b, q // block], own)

    make = _compiled() if compiled else create_block_mask
    queries = anchors.shape[1] * block
    mask: BlockMask = make(
        sees, len(anchors), None, queries, context + queries, device=anchors.device
    )
    return mask


@cache
def _compiled() -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(create_block_mask)
    return compiled

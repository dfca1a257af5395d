"""The block that a drafter fills: the root and masks behind it, and where they are."""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.draft_block import reference

Pair = tuple[torch.Tensor, torch.Tensor]


def draft_block(root: torch.Tensor, start: torch.Tensor, mask: int, size: int) -> Pair:
    """Tokens [B, size] root, mask, mask, .. and their positions [B, size] from start on.

    root, start [B] int64; `mask` is a token.
    """
    if uses_kernel(root):
        from ddtree.ops.draft_block import launch

        return launch.block(root, start, mask, size)
    return reference.block(root, start, mask, size)

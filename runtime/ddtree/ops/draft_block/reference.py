"""The block in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch


def block(
    root: torch.Tensor, start: torch.Tensor, mask: int, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `draft_block`."""
    tokens = root.unsqueeze(1).repeat(1, size)
    tokens[:, 1:] = mask
    return tokens, start.unsqueeze(1) + torch.arange(size, device=start.device)

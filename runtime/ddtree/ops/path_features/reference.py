"""Joined, then gathered, in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch


def gathered(layers: tuple[torch.Tensor, ...], path: torch.Tensor) -> torch.Tensor:
    """See `path_features`."""
    joined = torch.cat(layers, dim=-1)  # [B, N, F]
    return joined.gather(1, path.unsqueeze(-1).expand(-1, -1, joined.shape[-1]))

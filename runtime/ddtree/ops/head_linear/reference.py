"""The product of every head in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch


def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x [B, N, H, K] by weight [H, O, K]: [B, N, H, O]."""
    return torch.einsum("bnhk,hok->bnho", x, weight)

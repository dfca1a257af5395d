"""The skinny product in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch
from torch.nn import functional


def multiply(
    x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """x W^T, plus the residual."""
    y = functional.linear(x, weight).to(dtype)
    return y if residual is None else y + residual


def gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, where `weight` [2 F, K] stacks gate and up."""
    gate, up = functional.linear(x, weight).chunk(2, dim=-1)
    return functional.silu(gate) * up

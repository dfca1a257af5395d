"""The skinny product in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch
from torch.nn import functional

from ddtree.ops.half_norm import Half


def multiply(
    x: torch.Tensor | Half, weight: torch.Tensor, residual: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """x W^T, plus the residual."""
    y = _product(x, weight).to(dtype)
    return y if residual is None else y + residual


def gated(x: torch.Tensor | Half, weight: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, where `weight` [2 F, K] stacks gate and up."""
    gate, up = _product(x, weight).chunk(2, dim=-1)
    return functional.silu(gate) * up


def _product(x: torch.Tensor | Half, weight: torch.Tensor) -> torch.Tensor:
    if not isinstance(x, Half):
        return functional.linear(x, weight)
    return (functional.linear(x.x, weight).float() * x.scale).to(x.x.dtype)

"""The mixture in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch

from ddtree.ops.experts.packed import Packed
from ddtree.ops.linear.reference import gated, multiply


def expert_mlp(
    x: torch.Tensor,  # [M, H]
    gate_up: torch.Tensor | Packed,  # [E, 2 F, H]
    down: torch.Tensor | Packed,  # [E, H, F]
    chosen: torch.Tensor,  # [M, K] int64
    weights: torch.Tensor,  # [M, K] float32
) -> torch.Tensor:
    """sum over k of weights[k] * down(silu(gate(x)) * up(x)) of expert chosen[k]: [M, H] float32.

    One product an expert that is wanted at all and is here, over the tokens that want it.
    """
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    total = total.to(torch.promote_types(total.dtype, x.dtype))
    for expert in sorted(set(chosen.flatten().tolist()) - {down.shape[0]}):
        token, slot = (chosen == expert).nonzero(as_tuple=True)
        inner = gated(x[token], matrix(gate_up, expert, x.dtype))
        part = multiply(inner, matrix(down, expert, x.dtype), None, total.dtype)
        total.index_add_(0, token, part * weights[token, slot].unsqueeze(1))
    return total


def matrix(stack: torch.Tensor | Packed, expert: int, dtype: torch.dtype) -> torch.Tensor:
    """[out, in] of one expert, in `dtype` if it is packed."""
    return stack.matrix(expert, dtype) if isinstance(stack, Packed) else stack[expert]

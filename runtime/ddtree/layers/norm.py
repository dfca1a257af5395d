"""Root-mean-square normalisation over the last dimension."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn

from ddtree.ops.half_norm import Half
from ddtree.ops.rms_norm import rms_norm


class RmsNorm(nn.Module):
    """y = x / sqrt(mean(x^2) + eps) * weight, computed in float32, returned in x's dtype.

    `weight` is [..., D]: one row for all, or one for each of x's last but one dimension (heads;
    on CUDA the rotary kernel does those). `halves`: products before and behind it may do it in two
    halves, without a launch. So does a model always or never: other roundings, other bits.
    """

    def __init__(self, weight: torch.Tensor, eps: float, *, halves: bool = False) -> None:
        super().__init__()
        self.halves = halves
        size = weight.shape[-1]
        self.eps = eps
        self.weight = weight
        # |x| = sqrt(size) * rms(x), so both constants move into the weight and the floor
        self.scaled = weight.float() * math.sqrt(size)
        self.floor = torch.tensor(math.sqrt(size * eps), device=weight.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda:
            return rms_norm(x, self.weight, self.eps)
        # On a CPU F.rms_norm is six small operations. bf16, 576 wide, us for 1 / 17 rows:
        # F.rms_norm 14.5 / 21.9, this 8.4 / 16.1.
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scaled: torch.Tensor = x / norm.hypot_(self.floor) * self.scaled
        return scaled.to(x.dtype)


class Stream(NamedTuple):
    """Hidden states between two parts of a layer."""

    hidden: torch.Tensor  # [B, N, H]
    normed: torch.Tensor | Half  # what the next part takes

"""What the kernel is told of the norms before and behind a product."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ddtree.ops.half_norm import BLOCK, Begun, Half


class Norms(NamedTuple):
    tensors: tuple[torch.Tensor, ...]  # sums of x; weight, x and sums of what is begun
    eps: float
    constants: dict[str, int]


def norms_of(x: torch.Tensor | Half, out: torch.Tensor | Begun) -> Norms:
    """Where there is none, the kernel reads none of the tensors."""
    none = out.h if isinstance(out, Begun) else out
    before, eps, sums = (
        (x.squares, x.eps, x.squares.shape[1]) if isinstance(x, Half) else (none, 0.0, 0)
    )
    behind, size = (none, none, none), 0
    if isinstance(out, Begun):
        behind, size = (out.weight, out.half.x, out.half.squares), BLOCK
    halvings = max(2, (sums - 1).bit_length())
    return Norms((before, *behind), eps, {"SUMS": sums, "HALVINGS": halvings, "BLOCK": size})

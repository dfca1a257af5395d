"""Grids and tuning constants of the product of every head."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.ops.backend import limits
from ddtree.ops.head_linear import kernel

FEW = 32  # tokens up to which 16 outputs a program are best
BK = 64  # features a tile: how K is summed, whatever the tokens are


@dataclass(frozen=True)
class Blocks:
    """How a launch is tiled. No choice here changes a bit of the result."""

    outputs: int  # BN
    tokens: int  # BM
    warps: int = 4
    stages: int = 3


def choose(m: int, weight: torch.Tensor) -> Blocks:
    """Tiles for m tokens by weight [H, O, K].

    Rows that are dense are read by many small programs with all of K under way, as small weights
    in ops/linear are, and by one kind of tile where two may round apart. Others are read across.
    """
    tokens = 16 if m <= 16 else 32 if m <= 32 else 64
    if weight.stride(2) == 1 and (m <= FEW or not limits(weight.device).one_rounding):
        return Blocks(16, tokens, warps=2, stages=8 if tokens < 64 else 4)
    return Blocks(64, tokens)


def run(
    x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, blocks: Blocks | None = None
) -> None:
    """x [M, H, K] by weight [H, O, K] into out [M, H, O]; last dimensions of x and out dense."""
    m, heads, k = x.shape
    outputs = weight.shape[1]
    tile = blocks or choose(m, weight)
    kernel.head_linear[(-(-outputs // tile.outputs), -(-m // tile.tokens), heads)](
        x,
        x.stride(0),
        x.stride(1),
        weight,
        weight.stride(0),
        out,
        out.stride(0),
        out.stride(1),
        m,
        N=outputs,
        K=k,
        S_N=weight.stride(1),
        S_K=weight.stride(2),
        BN=tile.outputs,
        BM=tile.tokens,
        BK=BK,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )

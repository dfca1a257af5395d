"""The grid of the product of every head."""

from __future__ import annotations

import torch

from ddtree.ops.head_linear import kernel

BN, BK = 64, 64  # outputs, features a tile


def run(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
    """x [M, H, K] by weight [H, O, K] into out [M, H, O]; last dimensions of x and out dense."""
    m, heads, k = x.shape
    outputs = weight.shape[1]
    tokens = 16 if m <= 16 else 32 if m <= 32 else 64
    kernel.head_linear[(-(-outputs // BN), -(-m // tokens), heads)](
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
        BN=BN,
        BM=tokens,
        BK=BK,
        num_warps=4,
        num_stages=3,
    )

"""The grids of the kernels that lead into latent attention."""

from __future__ import annotations

import torch

from ddtree.ops.head_linear.launch import BK, choose
from ddtree.ops.rope_latents import kernel

Pair = tuple[torch.Tensor, torch.Tensor]
Norm = tuple[torch.Tensor, float]


def write(
    joint: torch.Tensor,
    angles: Pair,
    cache: Pair,
    norms: tuple[Norm, Norm | None],
    query: torch.Tensor,
) -> None:
    """joint [T, Q + C], its last dimension dense: latents to their slots, query [T, Q] normed."""
    latents, slots = cache
    (weight, eps), second = norms
    size, dim = query.shape[1], latents.shape[-1] - len(weight)
    query_weight, query_eps = norms[0] if second is None else second
    kernel.rope_latents[(len(joint), 1 if second is None else 2)](
        joint,
        joint.stride(0),
        *angles,
        latents,
        slots,
        weight,
        eps,
        query,
        query_weight,
        query_eps,
        R=len(weight),
        D=dim,
        BR=_block(len(weight)),
        Q=size,
        BQ=_block(size),
        num_warps=4,
    )


def queries(x: torch.Tensor, weight: torch.Tensor, angles: Pair, out: torch.Tensor) -> None:
    """x [M, H, K + D] by weight [H, O, K] and rotated into out [M, H, O + D], contiguous."""
    m, heads, _ = x.shape
    outputs, k = weight.shape[1:]
    tile = choose(m, weight)
    grid = (1 + -(-outputs // tile.outputs), -(-m // tile.tokens), heads)
    kernel.queries[grid](
        x,
        x.stride(0),
        x.stride(1),
        weight,
        weight.stride(0),
        *angles,
        out,
        out.stride(0),
        out.stride(1),
        m,
        N=outputs,
        K=k,
        D=x.shape[2] - k,
        S_N=weight.stride(1),
        S_K=weight.stride(2),
        BN=tile.outputs,
        BM=tile.tokens,
        BK=BK,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def _block(size: int) -> int:
    return 1 << (size - 1).bit_length() if size else 1

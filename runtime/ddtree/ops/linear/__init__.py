"""Products of few tokens with a large weight, and what is fused behind them.

On CUDA in 16 bits a token's result has the same bits whatever other tokens are beside it: that is
what makes the verify of a tree equal to autoregressive decode. Sums are float32, rounded once.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.linear.reference import gated, multiply


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    residual: torch.Tensor | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """x [..., K] by weight [N, K], plus residual [..., N]: [..., N] in `dtype` or x's."""
    dtype = dtype or x.dtype
    if not _runs(x, weight):
        return multiply(x, weight, residual, dtype)
    from ddtree.ops.linear import launch

    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = torch.empty(rows.shape[0], weight.shape[0], dtype=dtype, device=x.device)
    if residual is None:
        launch.run(rows, weight, out, launch.PLAIN)
    else:
        launch.run(rows, weight, out, launch.RESIDUAL, residual.contiguous())
    return out.view(*x.shape[:-1], -1)


def gated_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up [..., F] of x [..., K]; weight [2 F, K] stacks gate and up."""
    if not _runs(x, weight):
        return gated(x, weight)
    from ddtree.ops.linear import launch

    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = torch.empty(rows.shape[0], weight.shape[0] // 2, dtype=x.dtype, device=x.device)
    launch.run(rows, weight, out, launch.GATED)
    return out.view(*x.shape[:-1], -1)


def linear_pair(
    x: torch.Tensor,
    weight: torch.Tensor,
    stacked: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """linear(x, weight, dtype=dtype) [..., N] and gated_linear(x, stacked) [..., F], in one launch.

    For two weights [N, K] and [2 F, K] too small to fill a device: a router and a shared expert.
    Its sums are cut as those of one weight of N + 2 F rows, so bits are not those of the two ops.
    """
    dtype = dtype or x.dtype
    if not (_runs(x, weight) and _runs(x, stacked)):
        return multiply(x, weight, None, dtype), gated(x, stacked)
    from ddtree.ops.linear import launch

    rows = x.reshape(-1, x.shape[-1]).contiguous()
    n, f = weight.shape[0], stacked.shape[0] // 2
    plain = torch.empty(rows.shape[0], n, dtype=dtype, device=x.device)
    inner = torch.empty(rows.shape[0], f, dtype=x.dtype, device=x.device)
    launch.run_pair(rows, (weight, stacked), (plain, inner))
    return plain.view(*x.shape[:-1], -1), inner.view(*x.shape[:-1], -1)


def _runs(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether the kernel takes this; float32 on CUDA is cuBLAS's, the kernel has no unit for it."""
    if x.shape[-1] != weight.shape[-1]:
        raise ValueError(f"{x.shape[-1]} features do not fit weight {tuple(weight.shape)}")
    return uses_kernel(x) and not (x.is_cuda and x.dtype == torch.float32)

"""Products of few tokens with a large weight, and what is fused behind them.

On CUDA in 16 bits a token's result has the same bits whatever other tokens are beside it: that is
what makes the verify of a tree equal to autoregressive decode. Sums are float32, rounded once.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.half_norm import BLOCK, Begun, Half, begin, rows
from ddtree.ops.linear.reference import gated, multiply


def linear(
    x: torch.Tensor | Half,
    weight: torch.Tensor,
    residual: torch.Tensor | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """x [..., K] by weight [N, K], plus residual [..., N]: [..., N] in `dtype` or x's."""
    own = _features(x)
    dtype = dtype or own.dtype
    if not _runs(own, weight):
        return multiply(x, weight, residual, dtype)
    from ddtree.ops.linear import launch

    flat = _rows(x)
    out = torch.empty(own[..., 0].numel(), weight.shape[0], dtype=dtype, device=own.device)
    if residual is None:
        launch.run(flat, weight, out, launch.PLAIN)
    else:
        launch.run(flat, weight, out, launch.RESIDUAL, residual.contiguous())
    return out.view(*own.shape[:-1], -1)


# A step over one with whole norms, H200: SmolLM2 (576 features) at batch 1 autoregressive 0.87,
# budgets 16 to 63 0.88 to 0.89, at batch 64 0.90 and 1.00 (budget 16). Qwen3-8B (4,096) 0.98 and
# budget 16 0.985, but budget 64 1.02: tiles of a wide weight are slow to sum 65 tokens' squares.
BROAD = 2048  # features from which norms stay whole


def begins_norms(like: torch.Tensor, width: int) -> bool:
    """Whether norms of `width` between products of such tensors are done in halves: where kernels
    run, but for float16, in which h times a weight may be too large.
    """
    return like.is_cuda and like.dtype == torch.bfloat16 and width < BROAD


def linear_and_half(
    x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor, norm: torch.Tensor, eps: float
) -> tuple[torch.Tensor, Half]:
    """h = linear(x, weight, residual) [..., N], and half of its norm with the weight `norm` [N]."""
    if not _runs(x, weight):
        h = multiply(x, weight, residual, x.dtype)
        return h, begin(h, norm, eps)
    from ddtree.ops.linear import launch

    n, shape = weight.shape[0], x.shape[:-1]
    flat = rows(x)
    h, scaled = flat.new_empty(len(flat), n), flat.new_empty(len(flat), n)
    squares = flat.new_empty(len(flat), -(-n // BLOCK), dtype=torch.float32)
    out = Begun(h, Half(scaled, squares, eps), norm)
    launch.run(flat, weight, out, launch.RESIDUAL, residual.contiguous())
    return h.view(*shape, n), Half(scaled.view(*shape, n), squares.view(*shape, -1), eps)


def gated_linear(x: torch.Tensor | Half, weight: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up [..., F] of x [..., K]; weight [2 F, K] stacks gate and up."""
    own = _features(x)
    if not _runs(own, weight):
        return gated(x, weight)
    from ddtree.ops.linear import launch

    out = own.new_empty(own[..., 0].numel(), weight.shape[0] // 2)
    launch.run(_rows(x), weight, out, launch.GATED)
    return out.view(*own.shape[:-1], -1)


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

    flat = rows(x)
    n, f = weight.shape[0], stacked.shape[0] // 2
    plain = torch.empty(len(flat), n, dtype=dtype, device=x.device)
    inner = torch.empty(len(flat), f, dtype=x.dtype, device=x.device)
    launch.run_pair(flat, (weight, stacked), (plain, inner))
    return plain.view(*x.shape[:-1], -1), inner.view(*x.shape[:-1], -1)


def _runs(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether the kernel takes this; float32 on CUDA is cuBLAS's, the kernel has no unit for it."""
    if x.shape[-1] != weight.shape[-1]:
        raise ValueError(f"{x.shape[-1]} features do not fit weight {tuple(weight.shape)}")
    return uses_kernel(x) and not (x.is_cuda and x.dtype == torch.float32)


def _features(x: torch.Tensor | Half) -> torch.Tensor:
    return x.x if isinstance(x, Half) else x


def _rows(x: torch.Tensor | Half) -> torch.Tensor | Half:
    return x.rows() if isinstance(x, Half) else rows(x)

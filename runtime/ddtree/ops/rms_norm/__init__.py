"""Root-mean-square normalisation over the last dimension, with the residual addition before it."""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.rms_norm.reference import normed


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float, *, delta: torch.Tensor | None = None
) -> torch.Tensor:
    """x / rms(x) * weight, x [..., H] and weight [H]. With `delta`, first x += delta in place."""
    if not uses_kernel(x):
        if delta is not None:
            x += delta
        return normed(x, weight, eps)
    from ddtree.ops.rms_norm import launch

    if delta is not None and not x.is_contiguous():
        raise ValueError("x is changed in place and must be contiguous")
    rows = x.contiguous().view(-1, x.shape[-1])
    out = torch.empty_like(rows)
    flat = None if delta is None else delta.contiguous().view_as(rows)
    launch.run(rows, weight, eps, flat, out)
    return out.view(x.shape)

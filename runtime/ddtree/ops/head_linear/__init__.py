"""A product of its own for every head: what takes queries into the latents' space and back.

On CUDA a token's result has the same bits whatever other tokens are beside it, and no shape of the
batch reaches a library.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.head_linear.reference import multiply


def head_linear(
    x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """x [B, N, H, K] by weight [H, O, K]: [B, N, H, O], written to `out` where it is given.

    x and out may be parts of wider rows (their last dimension is dense), weight may be transposed.
    """
    out = x.new_empty(*x.shape[:-1], weight.shape[1]) if out is None else out
    if uses_kernel(x):
        from ddtree.ops.head_linear import launch

        launch.run(x.flatten(0, 1), weight, out.view(-1, *out.shape[2:]))
    else:
        out.copy_(multiply(x, weight))
    return out

"""The grids of the sampling kernels."""

from __future__ import annotations

import torch

from ddtree.ops.sample import kernel
from ddtree.ops.sample.reference import Filters

BLOCK = 8192  # logits a pass holds in registers


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    draw: torch.Tensor,
    filters: Filters,
    *,
    greedy: bool,
) -> torch.Tensor:
    """See `ops.sample.sample`. One program a node."""
    rows, nodes, vocabulary = logits.shape
    out = torch.empty(rows, nodes, dtype=torch.int64, device=logits.device)
    block = min(BLOCK, 1 << (vocabulary - 1).bit_length())
    top_p, top_k, min_p = filters.top_p, filters.top_k, filters.min_p
    kernel.sample[(rows * nodes,)](
        logits.contiguous(),
        temperature,
        temperature if top_p is None else top_p,
        temperature if top_k is None else top_k,
        temperature if min_p is None else min_p,
        draw.contiguous(),
        out,
        nodes,
        vocabulary,
        BV=block,
        GREEDY=greedy,
        TOP_P=top_p is not None,
        TOP_K=top_k is not None,
        MIN_P=min_p is not None,
        num_warps=max(1, min(16, block // 512)),
    )
    return out


def uniform(seed: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """See `ops.sample.uniform`. Both of one rank."""
    shape = [max(pair) for pair in zip(seed.shape, position.shape, strict=True)]
    seeds, positions = seed.expand(shape), position.expand(shape)
    out = torch.empty(shape, dtype=torch.float64, device=positions.device)
    block = 256
    kernel.uniform[(-(-out.numel() // block),)](
        seeds.contiguous(), positions.contiguous(), out, out.numel(), BLOCK=block
    )
    return out

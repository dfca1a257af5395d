"""The grids of the sampling kernels."""

from __future__ import annotations

import torch

from ddtree.ops.sample import kernel
from ddtree.ops.sample.reference import Chance, Chosen, Filters

BLOCK = 8192  # logits a pass holds in registers


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    chance: Chance,
    filters: Filters,
    *,
    greedy: bool,
) -> Chosen:
    """See `ops.sample.sample`. One program a node."""
    rows, nodes, vocabulary = logits.shape
    chosen = Chosen(
        torch.empty(rows, nodes, dtype=torch.int64, device=logits.device),
        torch.empty(rows, nodes, dtype=torch.float32, device=logits.device),
    )
    block = min(BLOCK, 1 << (vocabulary - 1).bit_length())
    top_p, top_k, min_p = filters.top_p, filters.top_k, filters.min_p
    kernel.sample[(rows * nodes,)](
        logits.contiguous(),
        temperature,
        temperature if top_p is None else top_p,
        temperature if top_k is None else top_k,
        temperature if min_p is None else min_p,
        chance.seed,
        chance.position.contiguous(),
        chosen.tokens,
        chosen.peak,
        nodes,
        vocabulary,
        BV=block,
        GREEDY=greedy,
        TOP_P=top_p is not None,
        TOP_K=top_k is not None,
        MIN_P=min_p is not None,
        num_warps=max(1, min(16, block // 512)),
    )
    return chosen

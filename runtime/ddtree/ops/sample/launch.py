"""The grids of the sampling kernels."""

from __future__ import annotations

import torch

from ddtree.ops.sample import kernel
from ddtree.ops.sample.reference import Chance, Chosen, Filters

PART = 4096  # logits of which a program finds the largest
BLOCK = 16384  # logits that a pass over a row holds in registers


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    chance: Chance,
    filters: Filters,
    *,
    greedy: bool,
) -> Chosen:
    """See `ops.sample.sample`. The largest logit by many programs, a draw by one a node."""
    rows, nodes, vocabulary = logits.shape
    chosen = Chosen(
        torch.empty(rows, nodes, dtype=torch.int64, device=logits.device),
        torch.empty(rows, nodes, dtype=torch.float32, device=logits.device),
    )
    logits = logits.contiguous()
    tops, places = _peaks(logits)
    parts = tops.shape[1]
    block = min(BLOCK, 1 << (vocabulary - 1).bit_length())
    top_p, top_k, min_p = filters.top_p, filters.top_k, filters.min_p
    kernel.sample[(rows * nodes,)](
        logits,
        tops,
        places,
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
        parts,
        BV=block,
        BP=1 << (parts - 1).bit_length(),
        GREEDY=greedy,
        TOP_P=top_p is not None,
        TOP_K=top_k is not None,
        MIN_P=min_p is not None,
        num_warps=1 if greedy else max(1, min(32, block // 512)),
    )
    return chosen


def _peaks(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest logits [B * N, parts] and where they are."""
    rows, nodes, vocabulary = logits.shape
    part = min(PART, 1 << (vocabulary - 1).bit_length())
    shape = (rows * nodes, -(-vocabulary // part))
    tops = torch.empty(shape, dtype=torch.float32, device=logits.device)
    places = torch.empty(shape, dtype=torch.int32, device=logits.device)
    warps = max(1, min(8, part // 512))
    kernel.peaks[shape](logits, tops, places, vocabulary, shape[1], BV=part, num_warps=warps)
    return tops, places

"""The grids of the sampling kernels."""

from __future__ import annotations

import torch

from ddtree.ops.sample import kernel
from ddtree.ops.sample.reference import Chance, Chosen, Filters

# us a call, H200, old (a program a row) / now, at 17 x 49,152, 1,088 x 49,152 and 65 x 151,936:
#   temperature       35.5 / 6.7    267 / 62      112 / 17
#   top_p 0.9         222 / 71      1929 / 273    698 / 374  (2048 kept, 16 warps: 95, 340, 365)
#   top_k 40          163 / 32      1400 / 316    550 / 46   (as above)
#   min_p 0.05        41 / 17       306 / 176     118 / 28   (as above)
# Logits were Gaussian: 0.9 of their mass is thousands of tokens, which a model's seldom is. Others
# of PART, WARPS and DRAW_WARPS were within 5 % or slower.
PART = 4096  # logits that a program of the first kernel reads
WARPS = 8
STRIP = 256  # logits of which a largest and a weight are kept
BLOCK = 4096  # logits that a filter looks at in one go
KEPT = 1024  # tokens that filters choose from in registers
DRAW_WARPS = 4
FILTER_WARPS = 8
SHIFTS = {torch.float32: 0, torch.float16: 13, torch.bfloat16: 16}  # bits in which none differ


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    chance: Chance,
    filters: Filters,
    *,
    greedy: bool,
) -> Chosen:
    """See `ops.sample.sample`. A row is cut alike whatever rows are beside it."""
    rows, nodes, vocabulary = logits.shape
    logits = logits.contiguous()
    tops, places, masses = _strips(logits, temperature, greedy=greedy)
    strips = tops.shape[1]
    width = 1 << (strips - 1).bit_length()
    tokens = torch.empty(rows, nodes, dtype=torch.int64, device=logits.device)
    peak = torch.empty(rows, nodes, dtype=torch.float32, device=logits.device)
    scratch = (rows * nodes if filters.any else 1, width + 2 * KEPT)
    top_p, top_k, min_p = filters.top_p, filters.top_k, filters.min_p
    kernel.sample[(rows * nodes,)](
        logits,
        tops,
        places,
        masses,
        temperature,
        chance.seed,
        chance.position.contiguous(),
        temperature if top_p is None else top_p,
        temperature if top_k is None else top_k,
        temperature if min_p is None else min_p,
        torch.empty(scratch, dtype=torch.int32, device=logits.device),
        tokens,
        peak,
        nodes,
        vocabulary,
        strips,
        BS=STRIP,
        BP=width,
        BC=BLOCK,
        KEPT=KEPT,
        SHIFT=SHIFTS[logits.dtype],
        GREEDY=greedy,
        TOP_P=top_p is not None,
        TOP_K=top_k is not None,
        MIN_P=min_p is not None,
        num_warps=1 if greedy else FILTER_WARPS if filters.any else DRAW_WARPS,
    )
    return Chosen(tokens, peak)


def _strips(
    logits: torch.Tensor, temperature: torch.Tensor, *, greedy: bool
) -> tuple[torch.Tensor, ...]:
    """Largest logits, their places and weights, each [B * N, strips]."""
    rows, nodes, vocabulary = logits.shape
    shape = (rows * nodes, -(-vocabulary // STRIP))
    tops, masses = (torch.empty(shape, dtype=torch.float32, device=logits.device) for _ in range(2))
    places = torch.empty(shape, dtype=torch.int32, device=logits.device)
    kernel.strips[(rows * nodes, -(-vocabulary // PART))](
        logits,
        temperature,
        tops,
        places,
        masses,
        nodes,
        vocabulary,
        shape[1],
        BV=PART,
        BS=STRIP,
        GREEDY=greedy,
        num_warps=WARPS,
    )
    return tops, places, masses

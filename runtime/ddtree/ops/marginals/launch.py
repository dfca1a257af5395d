"""The grids of the selection kernels."""

from __future__ import annotations

import torch

from ddtree.core.batch import Marginals
from ddtree.ops.marginals import kernel

PART = 4096  # logits a program reads
BLOCK = 64  # logits of which only the maximum is kept


def most_probable(logits: torch.Tensor, width: int) -> Marginals:
    """See `marginals`. Two launches."""
    rows, deep, vocabulary = logits.shape
    lines, device = rows * deep, logits.device
    part = min(PART, max(BLOCK, _power(vocabulary)))
    parts, blocks = -(-vocabulary // part), -(-vocabulary // BLOCK)
    again, most = min(width, blocks), _power(width)
    candidates = _power(again) * BLOCK
    short = logits.dtype == torch.bfloat16 and candidates <= 1 << 16
    tops, kept = (
        torch.empty(lines, count, dtype=torch.int32, device=device)
        for count in (blocks, _power(again))
    )
    stats = torch.empty(lines, parts, 2, dtype=torch.float32, device=device)
    keys = torch.empty(lines, most, dtype=torch.int32 if short else torch.int64, device=device)
    shape = (rows, deep, width)
    tokens = torch.empty(shape, dtype=torch.int64, device=device)
    logprobs = torch.empty(shape, dtype=torch.float32, device=device)
    logits = logits.contiguous()
    counts = (vocabulary, blocks, parts)
    kernel.part[(lines, parts)](
        logits,
        tops,
        stats,
        *counts,
        BV=part,
        BS=BLOCK,
        SHORT=short,
        num_warps=max(1, min(4, part // 256)),
    )
    kernel.rank[(lines,)](
        logits,
        tops,
        stats,
        kept,
        keys,
        tokens,
        logprobs,
        *counts,
        K=width,
        KB=again,
        BB=_power(blocks),
        BC=candidates,
        BP=_power(parts),
        BK=most,
        BS=BLOCK,
        SHORT=short,
        num_warps=max(4, min(16, max(candidates, _power(blocks)) // 512)),
    )
    return Marginals(tokens, logprobs)


def _power(number: int) -> int:
    """The next power of two."""
    return 1 << (number - 1).bit_length()

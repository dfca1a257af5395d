"""The grids of the selection kernels."""

from __future__ import annotations

import torch

from ddtree.core.batch import Marginals
from ddtree.ops.marginals import kernel

PART = 4096  # logits a part


def most_probable(logits: torch.Tensor, width: int) -> Marginals:
    """See `marginals`. Two launches."""
    rows, deep, vocabulary = logits.shape
    lines = rows * deep
    device = logits.device
    part = min(PART, max(32, 1 << (vocabulary - 1).bit_length()))
    parts = -(-vocabulary // part)
    bits = (parts * part - 1).bit_length()
    short = logits.dtype == torch.bfloat16
    entries = torch.empty(lines, parts, width, dtype=torch.int64, device=device)
    stats = torch.empty(lines, parts, 2, dtype=torch.float32, device=device)
    best = torch.empty(lines, width, dtype=torch.int64, device=device)
    found = Marginals(
        torch.empty(rows, deep, width, dtype=torch.int64, device=device),
        torch.empty(rows, deep, width, dtype=torch.float32, device=device),
    )
    kernel.part[(lines, parts)](
        logits.contiguous(),
        entries,
        stats,
        vocabulary,
        parts,
        K=width,
        BV=part,
        BITS=bits,
        SHORT=short,
        num_warps=max(1, min(8, part // 256)),
    )
    candidates = 1 << (parts * width - 1).bit_length()
    kernel.rank[(lines,)](
        entries,
        stats,
        best,
        found.tokens,
        found.logprobs,
        parts,
        K=width,
        BC=candidates,
        BP=1 << (parts - 1).bit_length(),
        BK=1 << (width - 1).bit_length(),
        BITS=bits,
        SHORT=short,
        num_warps=max(1, min(16, candidates // 256)),
    )
    return found

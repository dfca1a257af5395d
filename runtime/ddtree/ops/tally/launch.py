"""The grid of a step's end."""

from __future__ import annotations

from functools import cache

import torch

from ddtree.core.batch import DraftTree, Verdict
from ddtree.ops.tally import HEAD, Moved, kernel


@cache
def on_device(budgets: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """A graph reads them at every replay, so they are made once and kept."""
    return torch.tensor(budgets or (0,), dtype=torch.int64, device=device)


def tally(
    tree: DraftTree,
    scores: torch.Tensor | None,
    verdict: Verdict,
    peak: torch.Tensor,
    budgets: tuple[int, ...],
    moved: Moved,
) -> torch.Tensor:
    """See `tally`. One launch instead of torch's twenty."""
    rows, levels = verdict.tokens.shape
    nodes = tree.depths.shape[1]
    scored = peak if scores is None else scores
    most = 0 if scores is None else scores.shape[1]
    out = torch.empty(rows, HEAD + len(budgets) + levels, dtype=torch.float64, device=peak.device)
    kernel.tally[(rows,)](
        tree.depths,
        tree.depths.stride(0),
        scored,
        scored.stride(0),
        verdict.length,
        verdict.tokens.contiguous(),
        peak.contiguous(),
        on_device(budgets, peak.device),
        moved.index,
        moved.start,
        moved.root,
        out,
        moved.padding,
        nodes,
        most,
        levels,
        len(budgets),
        BN=1 << (nodes - 1).bit_length(),
        BM=1 << max(most - 1, 0).bit_length(),
        BL=1 << (levels - 1).bit_length(),
        num_warps=1,
    )
    return out

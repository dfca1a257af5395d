"""The end of a step in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Verdict


def numbers(
    tree: DraftTree,
    scores: torch.Tensor | None,
    verdict: Verdict,
    peak: torch.Tensor,
    budgets: tuple[int, ...],
) -> torch.Tensor:
    """See `tally`."""
    columns = [verdict.length, (tree.depths > 0).sum(1), peak.isfinite().all(1)]
    if scores is not None:
        promised = scores.double().exp()
        columns += [promised[:, 1 : budget + 1].sum(1) for budget in budgets]
    head = torch.stack([column.double() for column in columns], 1)
    return torch.cat([head, verdict.tokens.double()], 1)


def move(
    verdict: Verdict, index: torch.Tensor, padding: int, start: torch.Tensor, root: torch.Tensor
) -> None:
    """Starts go past the committed tokens; the bonus is the next root. Padding stays."""
    bonus = verdict.tokens.gather(1, (verdict.length - 1).unsqueeze(1)).squeeze(1)
    real = index != padding
    start.index_add_(0, index, verdict.length * real)
    root.index_copy_(0, index, bonus.where(real, root[index]))

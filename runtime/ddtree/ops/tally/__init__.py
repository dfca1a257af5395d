"""The end of a step: what it brought, in one row for the host, and the rows moved past it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.core.batch import DraftTree, Verdict
from ddtree.ops.backend import uses_kernel
from ddtree.ops.tally import reference

HEAD = 3  # columns before the promises: committed, drafted, healthy


@dataclass(frozen=True)
class Moved:
    """Where the rows of a step are kept: entry index[i] of `start` and `root` is row i's."""

    index: torch.Tensor  # [B] int64
    padding: int  # the entry that never moves
    start: torch.Tensor  # [R] int64
    root: torch.Tensor  # [R] int64


def tally(
    tree: DraftTree,
    scores: torch.Tensor | None,
    verdict: Verdict,
    peak: torch.Tensor,
    budgets: tuple[int, ...],
    moved: Moved,
) -> torch.Tensor:
    """Numbers [B, 3 + len(budgets) + D + 1] float64, and `moved` past the committed tokens.

    A row has the tokens committed, the nodes drafted, whether all of `peak` [B, N] is finite, the
    probability mass of each budget's nodes under `scores` [B, M] float32 (log-probabilities of
    paths; none: no budgets), and the committed tokens.
    """
    if scores is None and budgets:
        raise ValueError(f"no scores for the budgets {budgets}")
    if uses_kernel(peak):
        from ddtree.ops.tally import launch

        return launch.tally(tree, scores, verdict, peak, budgets, moved)
    reference.move(verdict, moved.index, moved.padding, moved.start, moved.root)
    return reference.numbers(tree, scores, verdict, peak, budgets)

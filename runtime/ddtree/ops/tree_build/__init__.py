"""Best-first growth of draft trees from per-position marginals (DDTree, Algorithm 1)."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.backend import uses_kernel
from ddtree.ops.tree_build.reference import grow


def tree_build(root: torch.Tensor, marginals: Marginals, budget: int) -> DraftTree:
    """Grow a tree of `budget` nodes under each root: the most probable prefixes, best first.

    root [B] int64; marginals [B, D, K]. Ties go to the candidate that was pushed first (a
    sibling is pushed before a child), which makes a smaller budget a prefix of a larger tree.
    Raises ValueError when K < min(budget, V) would hide a node: K must reach the budget.
    """
    if budget < 1:
        raise ValueError(f"budget {budget} must be at least 1")
    if marginals.tokens.shape != marginals.logprobs.shape:
        raise ValueError("marginals: tokens and logprobs differ in shape")
    if uses_kernel(root):
        from ddtree.ops.tree_build import launch

        return launch.grow(root, marginals, budget)
    return grow(root, marginals, budget)

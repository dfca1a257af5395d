"""Best-first growth of draft trees from per-position marginals (DDTree, Algorithm 1)."""

from __future__ import annotations

from dataclasses import replace

import torch

from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.backend import uses_kernel
from ddtree.ops.tree_build import reference
from ddtree.ops.tree_build.reference import Bounds

__all__ = ["Bounds", "chain", "root_only", "tree_build"]


def tree_build(
    root: torch.Tensor, marginals: Marginals, budget: int, bounds: Bounds | None = None
) -> DraftTree:
    """Grow a tree of `budget` nodes under each root: the most probable prefixes, best first.

    root [B] int64; marginals [B, D, K]. Ties go to the candidate that was pushed first (a
    sibling is pushed before a child), which makes a smaller budget a prefix of a larger tree.
    `bounds`: what a row wants less of. K must reach min(budget, V), or it hides a node.
    Raises ValueError when there is no budget, or the marginals do not fit each other.
    """
    if budget < 1:
        raise ValueError(f"budget {budget} must be at least 1")
    if marginals.tokens.shape != marginals.logprobs.shape:
        raise ValueError("marginals: tokens and logprobs differ in shape")
    if uses_kernel(root):
        from ddtree.ops.tree_build import launch

        return launch.grow(root, marginals, budget, bounds)
    return reference.grow(root, marginals, budget, bounds)


def chain(root: torch.Tensor, marginals: Marginals, bounds: Bounds) -> DraftTree:
    """The tree without branches: the most probable token of each position, N = D + 1. No scores.

    marginals [B, D, 1] or wider; of `bounds` the limit.
    """
    if uses_kernel(root):
        from ddtree.ops.tree_build import launch

        first = Marginals(marginals.tokens[:, :, :1], marginals.logprobs[:, :, :1])
        return replace(launch.grow(root, first, first.tokens.shape[1], bounds), scores=None)
    return reference.chain(root, marginals, bounds)


def root_only(root: torch.Tensor) -> DraftTree:
    """The tree of autoregressive decoding: N = 1, root [B] int64. No scores."""
    if uses_kernel(root):
        from ddtree.ops.tree_build import launch

        return launch.root_only(root)
    return reference.root_only(root)

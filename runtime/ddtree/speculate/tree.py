"""Tree: from marginals to the nodes that the target will verify."""

from __future__ import annotations

import torch

from ddtree.config import Mode
from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.tree_build import tree_build
from ddtree.ops.tree_build.reference import chain, root_only

__all__ = ["plant", "root_only"]


def plant(root: torch.Tensor, marginals: Marginals, mode: Mode, budget: int) -> DraftTree:
    """The tree of this mode under each root [B]: a branching one, or the argmax path alone."""
    if mode == "chain":
        return chain(root, marginals)
    return tree_build(root, marginals, budget)

"""Which nodes of a tree the target agrees with: the longest path of its own choices."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Verdict
from ddtree.ops.backend import uses_kernel
from ddtree.ops.tree_accept.reference import accept


def tree_accept(tree: DraftTree, chosen: torch.Tensor, depth: int) -> Verdict:
    """Walk each tree from the root as long as the target's choice is a child.

    tree of B rows and N nodes, chosen [B, N] int64: the target's next token after each node
    (argmax, or a sample: then the walk is an exact ancestral sample, DDTree section 3).
    `depth` is D, the deepest a path can be. Committed tokens are the accepted nodes' and one
    bonus, so 1 <= length <= D + 1.
    """
    if tree.tokens.shape != chosen.shape:
        raise ValueError(f"{tuple(chosen.shape)} choices for {tuple(tree.tokens.shape)} nodes")
    if uses_kernel(chosen):
        from ddtree.ops.tree_accept import launch

        return launch.accept(tree, chosen, depth)
    return accept(tree, chosen, depth)

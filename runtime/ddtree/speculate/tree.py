"""Tree: from marginals to the nodes that the target will verify."""

from __future__ import annotations

from ddtree.config import Mode
from ddtree.core.batch import DraftTree, Marginals, Rows
from ddtree.ops.tree_build import Bounds, chain, root_only, tree_build

__all__ = ["plant", "root_only"]


def plant(rows: Rows, marginals: Marginals, mode: Mode, budget: int) -> DraftTree:
    """The tree of this mode under each root: a branching one, or the argmax path alone.

    A row that wants no branches gets a chain in either mode, and nodes past a row's limit are
    unused.
    """
    bounds = Bounds(rows.limit, rows.branch)
    if mode == "chain":
        return chain(rows.root, marginals, bounds)
    return tree_build(rows.root, marginals, budget, bounds)

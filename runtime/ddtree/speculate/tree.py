"""Tree: from marginals to the nodes that the target will verify."""

from __future__ import annotations

from dataclasses import replace

import torch

from ddtree.config import Mode
from ddtree.core.batch import DraftTree, Marginals, Rows
from ddtree.ops.tree_build import tree_build
from ddtree.ops.tree_build.reference import chain, root_only

__all__ = ["plant", "root_only"]


def plant(rows: Rows, marginals: Marginals, mode: Mode, budget: int) -> DraftTree:
    """The tree of this mode under each root: a branching one, or the argmax path alone.

    A row that wants no branches gets a chain in either mode, and nodes past a row's limit are
    unused. Takes what branches are worth off `marginals`.
    """
    if mode == "chain":
        tree = chain(rows.root, marginals)
    else:
        marginals.logprobs[:, :, 1:] += rows.branch[:, None, None]
        tree = tree_build(rows.root, marginals, budget)
    nodes = torch.arange(tree.tokens.shape[1], device=tree.tokens.device)
    beyond = nodes > rows.limit.unsqueeze(1)  # [B, N]
    scores = None if tree.scores is None else tree.scores.masked_fill(beyond, -torch.inf)
    return replace(tree, depths=tree.depths.masked_fill(beyond, -1), scores=scores)

"""Trees that the host made, as tensors of one shape."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree
from ddtree.engine.upload import upload
from ddtree.ops.bitmask import pack
from ddtree.speculate.lookup import HostTree


def padded_trees(trees: list[HostTree], nodes: int, device: torch.device) -> DraftTree:
    """[B, nodes]; unused nodes see themselves only."""
    visible = torch.eye(nodes, dtype=torch.bool).repeat(len(trees), 1, 1)
    for i, tree in enumerate(trees):
        for node in range(1, len(tree.tokens)):
            visible[i, node] |= visible[i, tree.parents[node]]

    def padded(values: list[int], filler: int) -> list[int]:
        return values + [filler] * (nodes - len(values))

    return DraftTree(
        tokens=upload([padded(tree.tokens, tree.tokens[0]) for tree in trees], device),
        parents=upload([padded(tree.parents, 0) for tree in trees], device),
        depths=upload([padded(tree.depths, -1) for tree in trees], device),
        ancestors=pack(visible).to(device),
    )

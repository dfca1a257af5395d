"""Tree accept in torch, without a loop: a node is accepted when all its ancestors agree."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Verdict
from ddtree.ops.bitmask import unpack


def accept(tree: DraftTree, chosen: torch.Tensor, depth: int) -> Verdict:
    """See `tree_accept`."""
    nodes = tree.tokens.shape[1]
    parent = tree.parents.clamp(min=0)
    agrees = tree.tokens == chosen.gather(1, parent)  # [B, N]
    agrees &= tree.depths > 0
    agrees[:, 0] = True
    ancestors = unpack(tree.ancestors, nodes)  # [B, N, N]
    accepted = (agrees.unsqueeze(1) | ~ancestors).all(2)  # [B, N]

    # siblings differ in token, so each depth has at most one accepted node
    level = torch.arange(depth + 1, device=chosen.device)
    at_level = accepted.unsqueeze(1) & (tree.depths.unsqueeze(1) == level[:, None])  # [B, D+1, N]
    length = at_level.any(2).sum(1)  # [B]
    path = at_level.to(torch.int64).argmax(2)  # [B, D + 1]
    last = path.gather(1, (length - 1).unsqueeze(1))
    path = path.where(level < length.unsqueeze(1), last)
    return Verdict(path=path, length=length, tokens=chosen.gather(1, path))

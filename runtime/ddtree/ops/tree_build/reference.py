"""Tree growth in torch, all rows at once: the candidates are a list, a pop is an argmax.

The heap of Algorithm 1 holds at most one sibling and one child per popped node, so a list of
2 * budget + 1 candidates in push order is the whole heap; argmax takes the first of equals.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.bitmask import pack

NEVER = -torch.inf


@dataclass(frozen=True)
class Bounds:
    """What each row wants of its tree."""

    limit: torch.Tensor  # [B] int64, nodes besides the root; those past it are unused
    branch: torch.Tensor  # [B] float32, added to all but the first of each position; -inf: none


class _Candidates:
    """Pushed and not yet popped prefixes, in push order. Fields [B, C]."""

    def __init__(self, rows: int, capacity: int, device: torch.device) -> None:
        def ints() -> torch.Tensor:
            return torch.zeros(rows, capacity, dtype=torch.int64, device=device)

        self.score = torch.full((rows, capacity), NEVER, device=device)
        self.parent, self.depth, self.rank = ints(), ints(), ints()
        self.parent_score = torch.zeros(rows, capacity, device=device)
        self.size = 0

    def push(
        self,
        score: torch.Tensor,
        parent_score: torch.Tensor,
        parent: torch.Tensor,
        depth: torch.Tensor,
        rank: torch.Tensor,
    ) -> None:
        at = self.size
        self.score[:, at], self.parent_score[:, at] = score, parent_score
        self.parent[:, at], self.depth[:, at], self.rank[:, at] = parent, depth, rank
        self.size += 1


def grow(
    root: torch.Tensor, marginals: Marginals, budget: int, bounds: Bounds | None = None
) -> DraftTree:
    """See `tree_build`. A row that runs out of candidates leaves its last nodes unused."""
    rows, deep, wide = marginals.tokens.shape
    device = root.device
    row = torch.arange(rows, device=device)
    # a row and a column of -inf: no sibling after the last rank, no child after the last depth
    logprobs = torch.nn.functional.pad(marginals.logprobs, (0, 1, 0, 1), value=NEVER)
    if bounds is not None:
        logprobs[:, :, 1:] += bounds.branch[:, None, None]

    tokens = root.unsqueeze(1).repeat(1, budget + 1)  # [B, N]
    parents = torch.zeros_like(tokens)
    parents[:, 0] = -1
    depths = torch.full_like(tokens, -1)
    depths[:, 0] = 0
    scores = torch.full(tokens.shape, NEVER, device=device)
    scores[:, 0] = 0
    visible = torch.eye(budget + 1, dtype=torch.bool, device=device).repeat(rows, 1, 1)

    heap = _Candidates(rows, 2 * budget + 1, device)
    zero = torch.zeros_like(root)
    none = torch.zeros(rows, device=device)
    heap.push(logprobs[:, 0, 0], none, zero, zero + 1, zero)
    for node in range(1, budget + 1):
        best = heap.score[:, : heap.size].argmax(1)  # [B]
        score = heap.score[row, best]
        parent, depth, rank = heap.parent[row, best], heap.depth[row, best], heap.rank[row, best]
        before = heap.parent_score[row, best]
        heap.score.scatter_(1, best.unsqueeze(1), NEVER)
        used = score > NEVER
        if bounds is not None:
            used &= bounds.limit >= node
        level, shown = (depth - 1).clamp(max=deep - 1), rank.clamp(max=wide - 1)
        scores[:, node] = score.where(used, NEVER)
        tokens[:, node] = marginals.tokens[row, level, shown].where(used, root)
        parents[:, node] = parent.where(used, zero)
        depths[:, node] = depth.where(used, zero - 1)
        visible[:, node] |= visible[row, parent] & used.unsqueeze(1)
        sibling = before + logprobs[row, (depth - 1).clamp(max=deep), (rank + 1).clamp(max=wide)]
        child = score + logprobs[row, depth.clamp(max=deep), zero]
        heap.push(sibling.where(used, NEVER), before, parent, depth, rank + 1)
        heap.push(child.where(used, NEVER), score, zero + node, depth + 1, zero)
    return DraftTree(tokens, parents, depths, pack(visible), scores)


def chain(root: torch.Tensor, marginals: Marginals, bounds: Bounds | None = None) -> DraftTree:
    """See `ops.tree_build.chain`."""
    rows, deep, _ = marginals.tokens.shape
    device = root.device
    order = torch.arange(deep + 1, device=device).expand(rows, -1)
    limit = torch.full_like(root, deep) if bounds is None else bounds.limit
    used = order <= limit.unsqueeze(1)  # [B, N]
    itself = torch.eye(deep + 1, dtype=torch.bool, device=device)
    above = torch.ones_like(itself).tril()
    tokens = torch.cat([root.unsqueeze(1), marginals.tokens[:, :, 0]], 1)
    return DraftTree(
        tokens=tokens.where(used, root.unsqueeze(1)),
        parents=(order - 1).where(used, 0),
        depths=order.where(used, -1),
        ancestors=pack(itself | (above & used.unsqueeze(2))),
    )


def root_only(root: torch.Tensor) -> DraftTree:
    """See `ops.tree_build.root_only`."""
    zero = torch.zeros_like(root).unsqueeze(1)
    return DraftTree(
        tokens=root.unsqueeze(1),
        parents=zero - 1,
        depths=zero,
        ancestors=(zero + 1).unsqueeze(-1),
    )

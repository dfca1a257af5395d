"""The grid of the growth kernel."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.bitmask import words_for
from ddtree.ops.tree_build import kernel
from ddtree.ops.tree_build.reference import Bounds

LIMIT = 256  # budget; ranks and parents have 10 and 16 bits in a note


def grow(
    root: torch.Tensor, marginals: Marginals, budget: int, bounds: Bounds | None = None
) -> DraftTree:
    """See `tree_build`."""
    rows, deep, wide = marginals.tokens.shape
    if budget > LIMIT or deep > 32 or wide > 1000:
        raise ValueError(f"budget {budget}, depth {deep} or width {wide} is more than a note holds")
    nodes, words = budget + 1, words_for(budget + 1)

    def ints(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, dtype=torch.int64, device=root.device)

    tree = DraftTree(
        tokens=ints(rows, nodes),
        parents=ints(rows, nodes),
        depths=ints(rows, nodes),
        ancestors=ints(rows, nodes, words),
        scores=torch.empty(rows, nodes, dtype=torch.float32, device=root.device),
    )
    kernel.grow[(rows,)](
        root,
        marginals.tokens.contiguous(),
        marginals.logprobs.contiguous(),
        root if bounds is None else bounds.limit,
        marginals.logprobs if bounds is None else bounds.branch,
        tree.tokens,
        tree.parents,
        tree.depths,
        tree.scores,
        tree.ancestors,
        BUDGET=budget,
        DEEP=deep,
        WIDE=wide,
        SIZE=max(32, 1 << (budget - 1).bit_length()),
        TABLE=1 << (deep * wide - 1).bit_length(),
        W=words,
        BW=1 << (words - 1).bit_length(),
        BLOCK=min(128, max(32, 1 << (nodes - 1).bit_length())),
        BOUND=bounds is not None,
        num_warps=1,  # a pop is reductions; more warps would meet in shared memory
    )
    return tree


def root_only(root: torch.Tensor) -> DraftTree:
    """See `ops.tree_build.root_only`. One launch instead of torch's three."""
    rows, block = len(root), 128
    parents, depths, words = (root.new_empty(rows, 1) for _ in range(3))
    kernel.alone[(-(-rows // block),)](parents, depths, words, rows, BLOCK=block, num_warps=1)
    return DraftTree(root.unsqueeze(1), parents, depths, words.unsqueeze(-1))

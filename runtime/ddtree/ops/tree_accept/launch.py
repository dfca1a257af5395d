"""The grid of the accept kernel."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Verdict
from ddtree.ops.tree_accept import kernel


def accept(tree: DraftTree, chosen: torch.Tensor, depth: int) -> Verdict:
    """See `tree_accept`. A prefix of a larger tree is read in place."""
    rows, nodes = tree.tokens.shape
    tokens, parents, depths = (
        field if field.stride() == tree.tokens.stride() else field.contiguous()
        for field in (tree.tokens, tree.parents, tree.depths)
    )
    if tokens.stride(1) != 1 or parents.stride() != tokens.stride():
        tokens, parents, depths = (field.contiguous() for field in (tokens, parents, depths))

    def ints(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, dtype=torch.int64, device=chosen.device)

    verdict = Verdict(ints(rows, depth + 1), ints(rows), ints(rows, depth + 1))
    kernel.accept[(rows,)](
        tokens,
        parents,
        depths,
        tree.ancestors,
        tokens.stride(0),
        tree.ancestors.stride(0),
        tree.ancestors.stride(1),
        chosen.contiguous(),
        verdict.path,
        verdict.length,
        verdict.tokens,
        nodes,
        depth + 1,
        BN=1 << (nodes - 1).bit_length(),
        BL=1 << depth.bit_length(),
        W=tree.ancestors.shape[2],
        num_warps=4,
    )
    return verdict

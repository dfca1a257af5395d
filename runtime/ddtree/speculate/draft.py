"""Draft: one forward of the block gives every next position's distribution (DFlash)."""

from __future__ import annotations

from typing import Protocol

import torch

from ddtree.config import DrafterShape, Reach
from ddtree.core.batch import Marginals, Rows
from ddtree.ops.draft_block import draft_block
from ddtree.ops.marginals import marginals
from ddtree.ops.tree_attention import AttentionPlan, Pattern, plan_attention, plan_window
from ddtree.speculate.seam import Drafter, Models, Pools


class Embedding(Protocol):
    """What a block needs of the target."""

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """[B, N] -> [B, N, H]."""


def draft(
    rows: Rows, models: Models, pools: Pools, *, deep: int, width: int, longest: int
) -> Marginals:
    """The `width` most probable tokens of each of the `deep` next positions, at most D.

    The block is the root and D masks at positions start .. start + D; position start + d predicts
    itself. `longest` is the host's max(start). Raises ValueError without a drafter.
    """
    drafter, pool = models.drafter, pools.drafter
    if drafter is None or pool is None:
        raise ValueError("drafting needs a drafter and its cache")
    shape = drafter.shape
    tokens, positions = draft_block(
        rows.root, rows.start, shape.mask_token_id, shape.block_size
    )  # [B, b]
    plans = plan_block(rows, shape, pools.page_size, longest)
    embeddings = block_embeddings(tokens, models.target, drafter)
    hidden = drafter.forward(embeddings, positions, pool, plans)  # [B, b, H]
    logits = models.target.raw_logits(hidden[:, 1 : 1 + deep])  # [B, deep, V]
    return marginals(logits, width)


def plan_block(
    rows: Rows, shape: DrafterShape, page_size: int, longest: int
) -> list[AttentionPlan]:
    """A plan for each layer; layers that reach equally far share one."""

    def plan(reach: Reach) -> AttentionPlan:
        pattern: Pattern = "causal" if reach.causal else "all"
        where = (rows.start, rows.page_table, shape.block_size, pattern, page_size)
        if reach.window is None:
            return plan_attention(*where, longest + shape.block_size)
        return plan_window(*where, reach.window)

    reaches = [shape.reach(i) for i in range(shape.layers.num_layers)]
    plans = {reach: plan(reach) for reach in dict.fromkeys(reaches)}
    return [plans[reach] for reach in reaches]


def block_embeddings(tokens: torch.Tensor, embedding: Embedding, drafter: Drafter) -> torch.Tensor:
    """Of the block's tokens [B, b] root, mask, mask, …: [B, b, H]."""
    if drafter.mask_embedding is not None:
        first = embedding.embed(tokens[:, :1])  # [B, 1, H]
        masks = drafter.mask_embedding.expand(len(tokens), drafter.shape.depth, -1)
        return torch.cat([first, masks], dim=1)
    return embedding.embed(tokens)

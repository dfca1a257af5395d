"""Draft: one forward of the block gives every next position's distribution (DFlash)."""

from __future__ import annotations

import torch

from ddtree.core.batch import Marginals, Rows
from ddtree.ops.tree_attention import plan_attention
from ddtree.speculate.seam import Drafter, Models, Pools


def draft(rows: Rows, models: Models, pools: Pools, *, width: int, longest: int) -> Marginals:
    """The `width` most probable tokens of each of the D next positions.

    The block is the root and D masks at positions start .. start + D; position start + d predicts
    itself. `longest` is the host's max(start). Raises ValueError without a drafter.
    """
    drafter, pool = models.drafter, pools.drafter
    if drafter is None or pool is None:
        raise ValueError("drafting needs a drafter and its cache")
    block = drafter.shape.block_size
    positions = rows.start.unsqueeze(1) + torch.arange(block, device=rows.start.device)  # [B, b]
    plan = plan_attention(
        rows.start, rows.page_table, block, "all", pools.page_size, longest + block
    )
    embeddings = models.target.embed(_block_tokens(rows.root, drafter))  # [B, b, H]
    hidden = drafter.forward(embeddings, positions, pool, plan)  # [B, b, H]
    logits = models.target.logits(hidden[:, 1:])  # [B, D, V]
    top = logits.topk(min(width, logits.shape[-1]), dim=-1)
    return Marginals(top.indices, top.values - logits.logsumexp(-1, keepdim=True))


def _block_tokens(root: torch.Tensor, drafter: Drafter) -> torch.Tensor:
    """[root, mask, mask, …]: [B, b]."""
    masks = torch.full_like(root, drafter.shape.mask_token_id)
    return torch.cat([root.unsqueeze(1), masks.unsqueeze(1).expand(-1, drafter.shape.depth)], dim=1)

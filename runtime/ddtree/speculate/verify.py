"""Verify: one forward of the target over all nodes, each seeing the prefix and its ancestors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.core.batch import DraftTree, Rows
from ddtree.ops.sample import Chance, Method, Narrowing, sample
from ddtree.ops.tree_attention import AttentionPlan, plan_attention
from ddtree.speculate.seam import Models, Pools


@dataclass(frozen=True)
class Judged:
    """What the target says at each node."""

    logits: torch.Tensor  # [B, N, V] as the head rounded them
    features: tuple[torch.Tensor, ...]  # of the asked layers, each [B, N, H]
    chosen: torch.Tensor  # [B, N] int64, the target's next token after each node
    peak: torch.Tensor  # [B, N] float32, the largest logit; NaN where any is


def verify(
    rows: Rows, tree: DraftTree, models: Models, pools: Pools, *, longest: int, method: Method
) -> Judged:
    """Judge every node. Writes the nodes' keys and values to slots start .. start + N - 1.

    A node at depth d has position start + d, whatever its slot.
    """
    nodes = tree.tokens.shape[1]
    plan = plan_attention(
        rows.start, rows.page_table, nodes, tree.ancestors, pools.page_size, longest + nodes
    )
    positions = _positions(rows, tree, plan)
    out = models.target.forward(tree.tokens, positions, pools.target, plan, models.feature_layers)
    logits = models.target.raw_logits(out.hidden)  # [B, N, V]
    chance = Chance(rows.seed, positions)
    narrowing = Narrowing(rows.top_k, rows.min_p)
    chosen = sample(
        logits, rows.temperature, rows.top_p, chance, method=method, narrowing=narrowing
    )
    return Judged(logits, out.layers, chosen.tokens, chosen.peak)


def _positions(rows: Rows, tree: DraftTree, plan: AttentionPlan) -> torch.Tensor:
    """[B, N] of the nodes: the last position that a node sees is its own, and kernels know it."""
    if plan.paged is not None:
        return plan.paged.last
    return rows.start.unsqueeze(1) + tree.depths.clamp(min=0)

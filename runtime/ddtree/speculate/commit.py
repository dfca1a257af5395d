"""Commit: the only stage that changes the caches. Accepted nodes move behind the prefix."""

from __future__ import annotations

import torch

from ddtree.core.batch import Rows, Verdict
from ddtree.ops.kv_commit import kv_commit
from ddtree.ops.tree_attention import slots_of
from ddtree.speculate.seam import Models, Pools
from ddtree.speculate.verify import Judged


def commit(rows: Rows, judged: Judged, verdict: Verdict, models: Models, pools: Pools) -> None:
    """Make positions start .. start + length - 1 the accepted path, in both caches.

    Past `length` the drafter's context gets rows that the next commit overwrites; the target's
    slots there are left alone.
    """
    steps = torch.arange(verdict.path.shape[1], device=rows.start.device)  # [D + 1]
    positions = rows.start.unsqueeze(1) + steps  # [B, D + 1]
    source = slots_of(rows.page_table, rows.start.unsqueeze(1) + verdict.path, pools.page_size)
    target = slots_of(rows.page_table, positions, pools.page_size)
    moves = steps < verdict.length.unsqueeze(1)
    kv_commit(pools.target.kv, source, target.where(moves, source))
    if models.drafter is not None and pools.drafter is not None and judged.features is not None:
        index = verdict.path.unsqueeze(-1).expand(-1, -1, judged.features.shape[-1])
        accepted = judged.features.gather(1, index)  # [B, D + 1, F]
        models.drafter.write_context(accepted, positions, target, pools.drafter)

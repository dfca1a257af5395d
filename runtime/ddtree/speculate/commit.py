"""Commit: the only stage that changes the caches. Accepted nodes move behind the prefix."""

from __future__ import annotations

from ddtree.core.batch import Rows, Verdict
from ddtree.ops.kv_commit import commit_slots, kv_commit
from ddtree.ops.path_features import path_features
from ddtree.speculate.seam import Models, Pools
from ddtree.speculate.verify import Judged


def commit(rows: Rows, judged: Judged, verdict: Verdict, models: Models, pools: Pools) -> None:
    """Make positions start .. start + length - 1 the accepted path, in both caches.

    Past `length` the drafter's context gets rows that the next commit overwrites; the target's
    slots there are left alone. A root alone is in its place already.
    """
    alone = judged.chosen.shape[1] == 1
    if alone and not judged.features:
        return
    moves = commit_slots(rows.start, rows.page_table, pools.page_size, verdict.path, verdict.length)
    if not alone:
        kv_commit(pools.target.kv, moves.source, moves.target)
    if models.drafter is not None and pools.drafter is not None and judged.features:
        accepted = path_features(judged.features, verdict.path)  # [B, D + 1, F]
        models.drafter.write_context(accepted, moves.positions, moves.target, pools.drafter)

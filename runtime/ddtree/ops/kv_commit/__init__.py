"""Move the accepted nodes' keys and values behind the prefix, in order."""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.kv_commit.reference import Moves, slots_along

__all__ = ["Moves", "commit_slots", "kv_commit"]


def commit_slots(
    start: torch.Tensor,
    page_table: torch.Tensor,
    page_size: int,
    path: torch.Tensor,
    length: torch.Tensor,
) -> Moves:
    """What a commit moves, [B, T]: node path[t] goes to position start + t.

    start, length [B], page_table [B, P], path [B, T], all int64. Past `length` the source is the
    target, so nothing moves.
    """
    if uses_kernel(path):
        from ddtree.ops.kv_commit import launch

        return launch.slots(start, page_table, page_size, path.contiguous(), length)
    return slots_along(start, page_table, page_size, path, length)


def kv_commit(kv: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy slots `source` [B, T] to slots `target` [B, T] of kv [layers, sides, slots, Hkv, D].

    A row's sources are read before any of its targets is written, so they may overlap; rows have
    slots of their own. Entries that are not to move name the same slot on both sides.
    """
    if uses_kernel(kv):
        from ddtree.ops.kv_commit import launch

        launch.move(kv, source, target)
        return
    kv.index_copy_(2, target.flatten(), kv.index_select(2, source.flatten()))

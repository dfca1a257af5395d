"""Move the accepted nodes' keys and values behind the prefix, in order."""

from __future__ import annotations

import torch


def kv_commit(kv: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy slots `source` [B, T] to slots `target` [B, T] of kv [layers, 2, slots, Hkv, D].

    All sources are read before any target is written, so they may overlap. Entries that are not
    to move name the same slot on both sides.
    """
    kv.index_copy_(2, target.flatten(), kv.index_select(2, source.flatten()))

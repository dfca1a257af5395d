"""The grids of the commit kernels."""

from __future__ import annotations

import torch

from ddtree.ops.kv_commit import kernel
from ddtree.ops.kv_commit.reference import Moves

COLUMNS = 256


def slots(
    start: torch.Tensor,
    page_table: torch.Tensor,
    page_size: int,
    path: torch.Tensor,
    length: torch.Tensor,
) -> Moves:
    """See `commit_slots`."""
    rows, steps = path.shape
    moves = Moves(*(torch.empty_like(path) for _ in range(3)))
    kernel.slots[(rows,)](
        start,
        page_table,
        page_table.stride(0),
        path,
        length,
        moves.source,
        moves.target,
        moves.positions,
        steps,
        BT=1 << (steps - 1).bit_length(),
        PAGE=page_size,
        num_warps=1,
    )
    return moves


def move(kv: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> None:
    """See `kv_commit`."""
    layers, sides, _, heads, dim = kv.shape
    rows, steps = source.shape
    width = heads * dim
    kernel.move[(layers * sides, -(-width // COLUMNS), rows)](
        kv,
        kv.stride(1),
        source.contiguous(),
        target.contiguous(),
        steps,
        WIDTH=width,
        BT=1 << (steps - 1).bit_length(),
        BC=COLUMNS,
        num_warps=4,
    )

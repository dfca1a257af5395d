"""The grid of the plan, and what it leaves for the kernels of all layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.ops.bitmask import words_for
from ddtree.ops.page_plan import kernel

REACH = 15  # deepest node: a tree fills positions start .. start + REACH
GRAIN = 16  # keys; a tail begins at a multiple of it
TAIL = 32  # the most keys of a tail is one less
PATTERNS = {"tree": 0, "causal": 1, "all": 2}


@dataclass(frozen=True)
class Paged:
    """What the kernels of all layers share in one forward. Made by `plan`."""

    start: torch.Tensor  # [B] int64
    page_table: torch.Tensor  # [B, P] int64, rows may be strided
    page_size: int
    last: torch.Tensor  # [B, N] int32, last visible position of each token
    path: torch.Tensor | None  # [B, N, REACH + 1] int64, slots of the node's path; None: a span
    tail: torch.Tensor  # [B, N, TAIL] int32, slots from GRAIN * ((last - REACH) // GRAIN) on; -1


def plan(
    start: torch.Tensor, page_table: torch.Tensor, new: int, pattern: str | torch.Tensor, page: int
) -> tuple[torch.Tensor, Paged]:
    """Write slots [B, N] and the kernels' plan, in one launch."""
    rows, device = start.shape[0], start.device
    write = torch.empty(rows, new, dtype=torch.int64, device=device)
    last = torch.empty(rows, new, dtype=torch.int32, device=device)
    tail = torch.empty(rows, new, TAIL, dtype=torch.int32, device=device)
    tree = isinstance(pattern, torch.Tensor)
    words = pattern if isinstance(pattern, torch.Tensor) else write
    path = torch.empty(rows, new, REACH + 1, dtype=torch.int64, device=device) if tree else None
    kernel.plan[(new, rows)](
        start,
        page_table,
        page_table.stride(0),
        words,
        words.stride(0),
        words.stride(1),
        write,
        last,
        write if path is None else path,
        tail,
        new,
        W=words_for(new),
        PAGE=page,
        REACH=REACH,
        GRAIN=GRAIN,
        TAIL=TAIL,
        PATTERN=PATTERNS["tree" if isinstance(pattern, torch.Tensor) else pattern],
        num_warps=2,
    )
    return write, Paged(start, page_table, page, last, path, tail)

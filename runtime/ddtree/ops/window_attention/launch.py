"""Grids and scratch of attention within a window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ddtree.ops.backend import limits
from ddtree.ops.window_attention import kernel

if TYPE_CHECKING:
    from ddtree.ops.tree_attention.launch import Paged

# An H200 takes 12.8 us a layer of K2.6's drafter at 2,048 positions and 15.5 at 4,096, eight warps
# 16.3 and 20.8; tiles of 64 need 13.0 and 19.8, rows of 32 12.8 and 18.9.
MOST_TILE, WARPS = 128, 4
MOST_ROWS = 64  # tokens x heads of a group that share a loaded tile
PIECE = 64  # numbers of a row that a program of `finish` sums
TOGETHER = 16  # states whose loads are under way at once


@dataclass(frozen=True)
class Blocks:
    """How the work is cut. By shapes and device alone, so that a row knows no other row."""

    tile: int  # positions
    rows: int
    warps: int = WARPS


def choose(q: torch.Tensor, kv_heads: int) -> Blocks:
    """A tile of keys and one of values, in registers and then in shared memory."""
    _, new, heads, dim = q.shape
    rows = min(max(16, 1 << (new * heads // kv_heads - 1).bit_length()), MOST_ROWS)
    tile, size = MOST_TILE, q.element_size()
    while (
        tile > 16 and (2 * tile * dim + rows * (dim + tile)) * size > limits(q.device).shared // 2
    ):
        tile //= 2
    return Blocks(tile, rows)


def attend(
    q: torch.Tensor,
    kv: tuple[torch.Tensor, torch.Tensor],
    paged: Paged,
    window: int,
    out: torch.Tensor,
    blocks: Blocks | None = None,
) -> None:
    """Attention of q [B, N, Hq, D] into `out`: a token sees keys less than `window` away."""
    batch, new, heads, dim = q.shape
    kv_heads = kv[0].shape[1]
    by = blocks or choose(q, kv_heads)
    room = paged.page_table.shape[1] * paged.page_size
    parts = min(-(-room // by.tile), (window + new - 2) // by.tile + 2)
    acc, weights = (
        torch.empty(batch * new * heads * parts * size, dtype=torch.float32, device=q.device)
        for size in (dim, 2)
    )
    across = -(-new * heads // kv_heads // by.rows)
    kernel.attend[(across * parts, kv_heads, batch)](
        q,
        *kv,
        acc,
        weights,
        paged.start,
        paged.last,
        paged.page_table,
        paged.page_table.stride(0),
        new,
        parts,
        across,
        math.log2(math.e) / math.sqrt(dim),
        WINDOW=window,
        G=heads // kv_heads,
        HKV=kv_heads,
        D=dim,
        BR=by.rows,
        BT=by.tile,
        PAGE=paged.page_size,
        num_warps=by.warps,
    )
    _finish((acc, weights), paged.start, out, parts, {"WINDOW": window, "BT": by.tile})


def _finish(
    states: tuple[torch.Tensor, torch.Tensor],
    start: torch.Tensor,
    out: torch.Tensor,
    parts: int,
    fixed: dict[str, int],
) -> None:
    _, new, heads, dim = out.shape
    piece = min(PIECE, dim)
    kernel.finish[(dim // piece, out.numel() // dim)](
        *states,
        start,
        out,
        new,
        parts,
        HQ=heads,
        D=dim,
        BD=piece,
        BP=TOGETHER,
        num_warps=1,
        **fixed,
    )

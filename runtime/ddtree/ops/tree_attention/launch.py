"""Grids, scratch and tuning constants of the attention kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch

from ddtree.ops.backend import limits
from ddtree.ops.page_plan.launch import GRAIN, REACH, TAIL, Paged, plan
from ddtree.ops.state_sum.launch import States, finish
from ddtree.ops.tree_attention import kernel

__all__ = ["CUTS", "TAIL_ROWS", "Blocks", "Cuts", "Paged", "attend", "choose", "plan"]

TAIL_ROWS = 16  # heads of some tokens: the fewest rows of a product
TAIL_NODES = 4  # tokens whose tails share a program
PIECE = 32  # numbers of a row that a program of `finish` sums where rows are few
SCRATCH = 1 << 19  # states that may be stored; 256 MiB at D = 128
SHORT = 1056  # programs of a tile for every 132 multiprocessors, where a state is 128 numbers


@dataclass(frozen=True)
class Cuts:
    """Where the keys of a sequence are cut. They decide its bits, so no launch may choose them."""

    tile: int  # keys
    near: int  # tiles a chunk below tile `turn`
    far: int  # and beyond it
    turn: int

    def most_chunks(self, paged: Paged) -> int:
        """Chunks of the longest sequence that the page table can hold."""
        tiles = self.tiles(paged)
        near, far = min(tiles, self.turn), max(tiles - self.turn, 0)
        return -(-near // self.near) + -(-far // self.far)

    def tiles(self, paged: Paged) -> int:
        return -(-paged.page_table.shape[1] * paged.page_size // self.tile)

    @cached_property
    def fixed(self) -> dict[str, int | bool]:
        """What every kernel of an attention is given. Fused multiply-adds are off: else a merge in
        `attend` and one in `finish` may round apart.
        """
        names = {"BT": self.tile, "NEAR": self.near, "FAR": self.far, "TURN": self.turn}
        return {**names, "REACH": REACH, "enable_fp_fusion": False}


CUTS = Cuts(tile=64, near=4, far=16, turn=64)  # a chunk is a group of tiles

Part = Literal["tile", "group", "whole"]


@dataclass(frozen=True)
class Blocks:
    """How the work of one launch is cut. No choice here changes a bit of the result."""

    rows: int  # tokens x heads of one key-value head that share a loaded tile
    part: Part  # what a program takes: of far tiles always a group, of `whole` the tail too
    warps: int = 4
    stages: int = 3  # 1 and one for each tile that is on its way; two where all keys are walked


def attend(
    q: torch.Tensor,
    kv: tuple[torch.Tensor, torch.Tensor],
    paged: Paged,
    out: torch.Tensor,
    blocks: Blocks | None = None,
) -> None:
    """Attention of q [B, N, Hq, D] into `out`, in two launches, or one where no row is cut."""
    batch, new, heads, dim = q.shape
    kv_heads = kv[0].shape[1]
    cut = blocks or choose(q, kv_heads, paged)
    whole = cut.part == "whole"
    cuts = _tiles_alone() if cut.part == "tile" else CUTS
    chunks = 0 if whole else cuts.most_chunks(paged)
    stored = 0 if whole else batch * new * heads * (1 + chunks)
    acc, weights = (torch.empty(stored * size, device=q.device) for size in (dim, 2))
    rows = _rows(q, kv_heads, cut)
    across = -(-new * rows["G"] // cut.rows)
    tails = 0 if whole else -(-new // rows["NODES"])
    long = cuts.tiles(paged) > CUTS.turn
    fixed = cuts.fixed | {"GRAIN": GRAIN, "GROUP": CUTS.near, "LONG": long}
    kernel.attend[(kv_heads * (across * (chunks or 1) + tails), batch)](
        q,
        *kv,
        acc,
        weights,
        paged.last,
        paged.tail,
        paged.page_table,
        paged.page_table.stride(0),
        out,
        new,
        1 + chunks,
        across - rows["REST"],
        chunks,
        paged.page_table.shape[1] * paged.page_size,
        math.log2(math.e) / math.sqrt(dim),
        D=dim,
        PAGE=paged.page_size,
        TAIL=TAIL,
        WHOLE=whole,
        num_warps=cut.warps,
        num_stages=cut.stages,
        **rows,
        **fixed,
    )
    if not whole:
        finish(States(acc, weights, paged.last, 1 + chunks, fixed), out, _piece(out))


def _rows(q: torch.Tensor, kv_heads: int, cut: Blocks) -> dict[str, int | bool]:
    """Blocks of tokens x heads, and tails side by side in a product."""
    _, new, heads, dim = q.shape
    group = heads // kv_heads
    side = 1 << (group - 1).bit_length()  # rows of a token in a tail
    fit = _room(q, TAIL_ROWS) // (2 * TAIL * dim * q.element_size())
    nodes = 1 if new == 1 else max(1, min(TAIL_NODES, TAIL_ROWS // side, fit))
    rest = cut.part != "whole" and new * group > cut.rows and 0 < new * group % cut.rows <= 16
    blocks = {"BR": cut.rows, "REST": rest}
    return {"G": group, "HKV": kv_heads, "HEADS": side, "NODES": nodes, **blocks}


def _room(q: torch.Tensor, rows: int) -> int:
    """Bytes of shared memory for keys and values beside these rows."""
    return limits(q.device).shared - rows * q.shape[-1] * 4 - 8192


def _tiles_alone() -> Cuts:
    return Cuts(CUTS.tile, 1, CUTS.far, CUTS.turn)


def _piece(out: torch.Tensor) -> int:
    """Few rows in pieces: an H200 takes 2.7 us instead of 3.9 for 8B's one of 34 states."""
    dim = out.shape[-1]
    few = out.numel() // dim < limits(out.device).multiprocessors
    return min(PIECE, dim) if few else dim


def choose(q: torch.Tensor, kv_heads: int, paged: Paged) -> Blocks:
    """Blocks for these shapes: a tile a program while they are few, all where rows fill the device.

    64 rows are another matrix instruction than 16 or 32, and only Hopper rounds both alike.
    Microseconds on an H200, with `finish`, in bfloat16 (tile, group, whole: the best of each):
      8 x 4 heads of 128, context 2,048    1 token 10.9 12.0 -    17 17.5 15.0 -    65 46.7 27.2 -
      3 x 3 heads of 64, context 256       1 token 4.7 7.3 7.7    17 5.0 8.4 16.3   65 5.8 8.8 -
      the same, 64 rows                    1 token 10.2 12.8 10.8   17 27.1 30.4 22.5
    A last program that sums what others stored took longer than `finish` in all of them.
    """
    batch, new, heads, dim = q.shape
    rows, device = new * heads // kv_heads, limits(q.device)
    few = not device.one_rounding or q.dtype == torch.float32
    sizes = [size for size in (16, 32, 64) if size < 2 * rows and not (few and size > 32)] or [16]

    def programs(block: int, chunks: int) -> int:
        return batch * kv_heads * -(-rows // block) * chunks

    alone, together = _tiles_alone().most_chunks(paged), CUTS.most_chunks(paged)
    narrow = [size for size in sizes if programs(size, alone) <= 2 * device.multiprocessors]
    block = (narrow or sizes[-1:])[0]
    short = SHORT * device.multiprocessors // 132 * 128 // dim // (1 if block == 16 else 2)
    part: Part = "tile" if programs(block, alone) <= short else "group"
    stored = batch * new * heads * ((alone if part == "tile" else together) + 1)
    if (part == "group" and programs(block, 1) >= device.multiprocessors) or stored > SCRATCH:
        part = "whole"
    fit = _room(q, block) // (2 * CUTS.tile * dim * q.element_size())
    if part == "whole":
        more = block == 16 or (block, dim) == (64, 64)
        return Blocks(block, part, stages=1 + 2 * max(1, min(2 if more else 1, fit)))
    ahead = 2 if block != 32 or fit > 3 else 1  # not where another program then has no room
    room = fit - (block == 64)  # products of 64 rows still read a tile when the next one's begin
    return Blocks(block, part, stages=1 + max(1, min(ahead, room)))

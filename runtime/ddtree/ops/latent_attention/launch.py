"""Grids, scratch and tuning constants of latent attention."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from ddtree.ops.backend import limits
from ddtree.ops.latent_attention import kernel
from ddtree.ops.state_sum.launch import States, finish
from ddtree.ops.tree_attention.launch import Cuts, Paged

# One tile a chunk: a chunk is as long as its latents are under way, and at 2,048 positions 33
# programs read instead of 17. 64 latents fill a warp group's instruction, which reads them from
# shared memory once; of 32 every warp reads all. An H200 takes 9.3 us with one node and 15 with 17;
# 11 and 14 with 128 positions a tile, 12 and 20 with 32.
CUTS = Cuts(tile=64, near=1, far=8, turn=128)
ENDLESS = 1 << 30  # tiles: no sequence has a second chunk of so many
TAIL_ROWS = 16  # heads of one node that share a tail
SCRATCH = 1 << 17  # states that SPLIT may store; 256 MiB at a rank of 512
SLACK = 5 << 10  # bytes of shared memory for reductions
STEP = 64  # numbers of a latent that are taken at a time
PIECE, MANY_PIECE = 64, 128  # numbers of a row that a program of `finish` sums
FEW_ROWS = 4  # of each multiprocessor


@dataclass(frozen=True)
class Blocks:
    """How the work of one launch is cut. No choice here changes a bit of the result."""

    rows: int  # tokens x heads that share a loaded tile
    whole: bool  # one program walks all chunks of its rows, instead of one program a chunk
    # parts of a tile alone that are under way, two or more: with one, what Triton 3.6 makes of it
    # reads memory that is not its own on an H200, at every block size, and was never launched
    # (CUDA 12's ptxas gets its stores to shared memory wrong at times: triton #10787; not shown)
    stages: int = 6
    warps: int = 4


def attend(
    q: torch.Tensor,
    latents: torch.Tensor,
    paged: Paged,
    scale: float,
    out: torch.Tensor,
    blocks: Blocks | None = None,
) -> None:
    """Attention of q [B, N, H, C] over latents [slots, 1, C] into out [B, N, H, R]."""
    finish(states(q, latents, paged, scale, out.shape[-1], blocks), out, _piece(out))


def states(
    q: torch.Tensor,
    latents: torch.Tensor,
    paged: Paged,
    scale: float,
    rank: int,
    blocks: Blocks | None = None,
) -> States:
    """The states of all rows of q [B, N, H, C] over latents [slots, 1, C]."""
    batch, new, heads, size = q.shape
    most = CUTS.most_chunks(paged)
    tree = paged.path is not None
    cut = blocks or choose(q, most, tree=tree)
    left = _unset(q, paged, rank, whole=cut.whole)
    chunks = left.parts - 1
    across = -(-new * heads // cut.rows)
    tails = new * -(-heads // TAIL_ROWS) if tree else across
    kernel.attend[(across * chunks + tails, batch)](
        q,
        latents,
        left.acc,
        left.weights,
        paged.start,
        paged.last,
        paged.last if paged.path is None else paged.path,
        paged.page_table,
        paged.page_table.stride(0),
        paged.page_table.shape[1] * paged.page_size,
        new,
        left.parts,
        across,
        chunks,
        scale * math.log2(math.e),
        H=heads,
        R=rank,
        ROPE=size - rank,
        BR=cut.rows,
        TAIL_BR=TAIL_ROWS if tree else cut.rows,
        BK=min(STEP, rank, size - rank),
        PAGE=paged.page_size,
        WHOLE=cut.whole,
        LONG=most > CUTS.turn // CUTS.near,
        STAGES=cut.stages,
        TREE=tree,
        num_warps=cut.warps,
        num_stages=held_stages(cut.rows, q),
        **CUTS.fixed,
    )
    return left


def _unset(q: torch.Tensor, paged: Paged, rank: int, *, whole: bool) -> States:
    """Room for the states of all rows."""
    cuts = replace(CUTS, near=ENDLESS, turn=ENDLESS) if whole else CUTS
    parts, rows = 1 + cuts.most_chunks(paged), q.shape[:-1].numel()
    acc = torch.empty(rows * parts * rank, dtype=torch.float32, device=q.device)
    weights = torch.empty(rows * parts * 2, dtype=torch.float32, device=q.device)
    # a chunk, near or far, is a group of its own
    fixed = cuts.fixed | {"GRAIN": CUTS.tile // 2, "GROUP": 1, "LONG": False}
    return States(acc, weights, paged.last, parts, fixed)


def _piece(out: torch.Tensor) -> int:
    """Of few rows 33 states are on their way at once, of many 16, with fewer programs to start.

    us for 8 heads of 34 states, H200, and before, with 16 at once, each scaled behind the last:
    9 tokens 2.24, 3.28; 33 3.68, 4.16; 65 10.3, 10.5. Not timed with more.
    """
    rank = out.shape[-1]
    few = out.numel() // rank <= FEW_ROWS * limits(out.device).multiprocessors
    return min(PIECE if few else MANY_PIECE, rank)


def choose(q: torch.Tensor, chunks: int, *, tree: bool = True) -> Blocks:
    """Blocks for these shapes: enough programs to fill the device, few states to store.

    But for a tree's, a tail has as many rows, and holds its tile: with 32 of them 108 KiB.
    """
    batch, new, heads, _ = q.shape
    device, rows = limits(q.device), batch * new * heads
    narrow = new * heads <= 16 or not (tree or device.shared > 128 << 10)
    block = 16 if narrow else 32  # of 64: 15 us for 12 with 9 nodes, 22 for 19 with 33
    many = batch * -(-new * heads // block) >= 2 * device.multiprocessors
    whole = chunks <= 1 or many or rows * (chunks + 1) > SCRATCH
    if whole or chunks > CUTS.turn // CUTS.near:  # a row's sums are in registers, two if whole
        block = 32 if not whole and block > 16 and device.shared > 128 << 10 else 16
    fit = (device.shared - SLACK) // ((CUTS.tile + block) * STEP * q.element_size())
    return Blocks(block, whole, max(2, min(6, fit)), warps=8 if whole else 4)


def held_stages(block: int, q: torch.Tensor) -> int:
    """How many tiles that are held whole are under way; on sm_100 two need 300 KiB."""
    device, size = limits(q.device), q.shape[-1]
    fixed = block * (size + CUTS.tile) * q.element_size() + SLACK  # queries and shares
    fit = (device.shared - fixed) // (CUTS.tile * size * q.element_size())
    return max(1, min(2, fit)) if device.one_rounding else 1

"""Grids, scratch and tuning constants of latent attention; none was tuned on a device yet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ddtree.ops.backend import limits
from ddtree.ops.latent_attention import kernel
from ddtree.ops.tree_attention import kernel as shared
from ddtree.ops.tree_attention.launch import REACH, Paged

# Latents a tile. At 64 the stages of two tiles are more than sm_100 has (300 KiB for 227), and on
# sm_90 the registers spill; at 32 nothing spills anywhere but in WHOLE (compiled, not run).
TILE = 32
NEAR, FAR, TURN = 4, 16, 128  # tiles a chunk below tile TURN, and beyond it
TAIL_ROWS = 16  # heads of one node that share a tail
SCRATCH = 1 << 17  # states that SPLIT may store; 256 MiB at a rank of 512
SLACK = 8 << 10  # bytes of shared memory for reductions
WARPS = 8


@dataclass(frozen=True)
class Blocks:
    """How the work of one launch is cut. No choice here changes a bit of the result."""

    rows: int  # tokens x heads that share a loaded tile
    whole: bool  # one program walks all chunks of its rows, instead of one program a chunk
    stages: int = 2


def most_chunks(paged: Paged) -> int:
    """Chunks of the longest sequence that the page table can hold."""
    tiles = -(-paged.page_table.shape[1] * paged.page_size // TILE)
    return -(-min(tiles, TURN) // NEAR) + -(-max(tiles - TURN, 0) // FAR)


# Fused multiply-adds are off: else a merge in `attend` and one in `finish` may round apart.
_FIXED = {
    "BT": TILE,
    "REACH": REACH,
    "NEAR": NEAR,
    "FAR": FAR,
    "TURN": TURN,
    "enable_fp_fusion": False,
}


def attend(
    q: torch.Tensor,
    latents: torch.Tensor,
    paged: Paged,
    scale: float,
    out: torch.Tensor,
    blocks: Blocks | None = None,
) -> None:
    """Attention of q [B, N, H, C] over latents [slots, 1, C] into out [B, N, H, R]."""
    batch, new, heads, size = q.shape
    rank = out.shape[-1]
    cut = blocks or choose(q, most_chunks(paged))
    chunks = min(most_chunks(paged), 1) if cut.whole else most_chunks(paged)
    parts = 1 + chunks
    held = batch * new * heads * parts
    acc = torch.empty(held * rank, dtype=torch.float32, device=q.device)
    weights = torch.empty(held * 2, dtype=torch.float32, device=q.device)
    tree = paged.path is not None
    across = -(-new * heads // cut.rows)
    tails = new * -(-heads // TAIL_ROWS) if tree else across
    fixed = _FIXED | {"WHOLE": cut.whole}
    kernel.attend[(across * chunks + tails, batch)](
        q,
        latents,
        acc,
        weights,
        paged.start,
        paged.last,
        paged.last if paged.path is None else paged.path,
        paged.page_table,
        paged.page_table.stride(0),
        new,
        parts,
        across,
        chunks,
        scale * math.log2(math.e),
        H=heads,
        R=rank,
        ROPE=size - rank,
        BR=cut.rows,
        TAIL_BR=TAIL_ROWS if tree else cut.rows,
        PAGE=paged.page_size,
        TREE=tree,
        num_warps=WARPS,
        num_stages=cut.stages,
        **fixed,
    )
    states, unroll = (acc, weights, paged.last), 8 if chunks > 1 else 1
    finish = shared.finish[(batch * new * heads,)]
    finish(*states, out, parts, HQ=heads, D=rank, UNROLL=unroll, num_warps=4, **fixed)


def choose(q: torch.Tensor, chunks: int) -> Blocks:
    """Blocks for these shapes: enough programs to fill the device, few states to store."""
    batch, new, heads, size = q.shape
    device, rows = limits(q.device), new * heads

    def stages(block: int) -> int:
        held = block * (size + TILE) * q.element_size()  # queries and shares
        return (device.shared - SLACK - held) // (TILE * size * q.element_size())

    block = 32 if rows > 16 and stages(32) >= 2 else 16
    programs = batch * -(-rows // block)
    stored = batch * rows * (chunks + 1)
    whole = chunks <= 1 or programs >= 2 * device.multiprocessors or stored > SCRATCH
    return Blocks(block, whole, max(1, min(3, stages(block))))

"""Grids, scratch and tuning constants of latent attention; none was tuned on a device yet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ddtree.ops.backend import limits
from ddtree.ops.latent_attention import kernel
from ddtree.ops.tree_attention import kernel as shared
from ddtree.ops.tree_attention.launch import Cuts, Paged

# At 64 latents a tile the stages of two tiles are more than sm_100 has (300 KiB for 227), and on
# sm_90 the registers spill; at 32 nothing spills anywhere but in WHOLE (compiled, not run).
CUTS = Cuts(tile=32, near=4, far=16, turn=128)
TAIL_ROWS = 16  # heads of one node that share a tail
SCRATCH = 1 << 17  # states that SPLIT may store; 256 MiB at a rank of 512
SLACK = 8 << 10  # bytes of shared memory for reductions


@dataclass(frozen=True)
class Blocks:
    """How the work of one launch is cut. No choice here changes a bit of the result."""

    rows: int  # tokens x heads that share a loaded tile
    whole: bool  # one program walks all chunks of its rows, instead of one program a chunk
    stages: int = 2
    warps: int = 8


def attend(
    q: torch.Tensor,
    latents: torch.Tensor,
    paged: Paged,
    scale: float,
    out: torch.Tensor,
    blocks: Blocks | None = None,
) -> None:
    """Attention of q [B, N, H, C] over latents [slots, 1, C] into out [B, N, H, R]."""
    (batch, new, heads, size), rank = q.shape, out.shape[-1]
    most = CUTS.most_chunks(paged)
    cut = blocks or choose(q, most)
    chunks = min(most, 1) if cut.whole else most
    parts = 1 + chunks
    held = batch * new * heads * parts
    acc = torch.empty(held * rank, dtype=torch.float32, device=q.device)
    weights = torch.empty(held * 2, dtype=torch.float32, device=q.device)
    tree = paged.path is not None
    across = -(-new * heads // cut.rows)
    tails = new * -(-heads // TAIL_ROWS) if tree else across
    fixed = CUTS.fixed | {"WHOLE": cut.whole}
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
        num_warps=cut.warps,
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
        held = block * (size + CUTS.tile) * q.element_size()  # queries and shares
        return (device.shared - SLACK - held) // (CUTS.tile * size * q.element_size())

    block = 32 if rows > 16 and stages(32) >= 2 else 16
    programs = batch * -(-rows // block)
    stored = batch * rows * (chunks + 1)
    whole = chunks <= 1 or programs >= 2 * device.multiprocessors or stored > SCRATCH
    return Blocks(block, whole, max(1, min(3, stages(block))))

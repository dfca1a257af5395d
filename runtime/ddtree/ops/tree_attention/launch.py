"""Grids, scratch and tuning constants of the attention kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ddtree.ops.backend import limits
from ddtree.ops.bitmask import words_for
from ddtree.ops.overlap import overlapped
from ddtree.ops.tree_attention import kernel

TILE = 128  # keys a chunk
SUPER = 4  # chunks that are merged before others join
REACH = 15  # deepest node: a tree fills positions start .. start + REACH
STEP = 16  # a tail begins at a multiple; so it has at most REACH + STEP positions
TAIL = 32  # lanes of one node's tail
COLUMNS = 16  # heads of the nodes of one tail, the smallest token side of a product
WARPS = 4  # fixed: the weights of a tile are summed across the warps
SCRATCH = 1 << 19  # states that may be stored; 256 MiB at D = 128
PATTERNS = {"tree": 0, "causal": 1, "all": 2}
FIXED = {"BT": TILE, "REACH": REACH, "STEP": STEP, "SUPER": SUPER}


@dataclass(frozen=True)
class Paged:
    """What the kernels of all layers share in one forward. Made by `plan`."""

    start: torch.Tensor  # [B] int64
    page_table: torch.Tensor  # [B, P] int64, rows may be strided
    page_size: int
    last: torch.Tensor  # [B, N] int32, last visible position of each token
    path: torch.Tensor | None  # [B, N, REACH + 1] int64, slots of the node's path; None: a span

    @property
    def chunks(self) -> int:
        """Chunks of the longest sequence that the page table can hold."""
        return -(-self.page_table.shape[1] * self.page_size // TILE)


@dataclass(frozen=True)
class Blocks:
    """How the work of one launch is cut. No choice here changes a bit of the result."""

    rows: int  # tokens x heads of one key-value head that share a loaded tile
    unit: int  # chunks a program: 1, SUPER, or 0 for all
    stages: int = 1  # tiles in flight where a program has several chunks


def plan(
    start: torch.Tensor, page_table: torch.Tensor, new: int, pattern: str | torch.Tensor, page: int
) -> tuple[torch.Tensor, Paged]:
    """Write slots [B, N] and the kernels' plan, in one launch."""
    rows, device = start.shape[0], start.device
    write = torch.empty(rows, new, dtype=torch.int64, device=device)
    last = torch.empty(rows, new, dtype=torch.int32, device=device)
    path, words, kind = None, write, PATTERNS["tree"]
    if isinstance(pattern, torch.Tensor):
        words = pattern
        path = torch.empty(rows, new, REACH + 1, dtype=torch.int64, device=device)
    else:
        kind = PATTERNS[pattern]
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
        new,
        W=words_for(new),
        PAGE=page,
        REACH=REACH,
        PATTERN=kind,
        num_warps=1,
        **overlapped(start),
    )
    return write, Paged(start, page_table, page, last, path)


def attend(
    q: torch.Tensor,
    kv: tuple[torch.Tensor, torch.Tensor],
    paged: Paged,
    out: torch.Tensor,
    blocks: Blocks | None = None,
) -> None:
    """Attention of q [B, N, Hq, D] into `out`, in two launches."""
    batch, new, heads, dim = q.shape
    kv_heads = kv[0].shape[1]
    group = heads // kv_heads
    cut = blocks or choose(q, kv_heads, paged.chunks)
    units = -(-paged.chunks // cut.unit) if cut.unit else 1
    parts = 1 + units
    states = batch * new * heads * parts
    acc = torch.empty(states * dim, dtype=torch.float32, device=q.device)
    weights = torch.empty(states * 2, dtype=torch.float32, device=q.device)
    across = -(-new * group // cut.rows)
    nodes = min(TILE // TAIL, COLUMNS // group)
    tree = paged.path is not None
    tails = -(-new // nodes) if tree else across
    kernel.attend[(across * units + tails, kv_heads, batch)](
        q,
        *kv,
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
        units,
        math.log2(math.e) / math.sqrt(dim),
        G=group,
        HKV=kv_heads,
        D=dim,
        BR=cut.rows,
        TAIL=TAIL,
        TAIL_BR=COLUMNS if tree else cut.rows,
        NODES=nodes,
        PAGE=paged.page_size,
        UNIT=cut.unit,
        TREE=tree,
        num_warps=WARPS,
        num_stages=cut.stages,
        enable_fp_fusion=False,  # else a merge in `attend` and one in `finish` may round apart
        **FIXED,
        **overlapped(q),
    )
    kernel.finish[(batch * new * heads,)](
        acc,
        weights,
        paged.last,
        out,
        parts,
        HQ=heads,
        D=dim,
        UNIT=cut.unit,
        num_warps=1,
        enable_fp_fusion=False,
        **FIXED,
        **overlapped(q),
    )


def choose(q: torch.Tensor, kv_heads: int, chunks: int) -> Blocks:
    """Blocks for these shapes: enough programs to fill the device, few states to store."""
    batch, new, heads, dim = q.shape
    rows = new * heads // kv_heads
    device = limits(q.device)
    stages = 2 if 4 * TILE * dim * q.element_size() + (32 << 10) <= device.shared // 2 else 1
    block = 16 if rows <= 16 else 32
    alone = batch * kv_heads * -(-rows // block)
    stored = batch * new * heads
    if alone >= device.multiprocessors or stored * -(-chunks // SUPER) > SCRATCH:
        return Blocks(block, 0, stages)
    if rows > 32 or chunks > 128 or stored * chunks > SCRATCH:
        return Blocks(block if rows <= 32 else 64, SUPER, stages)
    return Blocks(block, 1)

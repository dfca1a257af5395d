"""Grids, scratch and tuning constants of the attention kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from ddtree.ops.backend import limits
from ddtree.ops.bitmask import words_for
from ddtree.ops.tree_attention import kernel

REACH = 15  # deepest node: a tree fills positions start .. start + REACH
GRAIN = 16  # keys; a tail begins at a multiple of it
TAIL_ROWS = 16  # heads of some tokens: the fewest rows of a product
TAIL_NODES = 4  # tokens whose tails share a program
UNROLL = 8  # states whose loads are in flight at once
SCRATCH = 1 << 19  # states that SPLIT may store; 256 MiB at D = 128
PATTERNS = {"tree": 0, "causal": 1, "all": 2}


@dataclass(frozen=True)
class Paged:
    """What the kernels of all layers share in one forward. Made by `plan`."""

    start: torch.Tensor  # [B] int64
    page_table: torch.Tensor  # [B, P] int64, rows may be strided
    page_size: int
    last: torch.Tensor  # [B, N] int32, last visible position of each token
    path: torch.Tensor | None  # [B, N, REACH + 1] int64, slots of the node's path; None: a span


@dataclass(frozen=True)
class Cuts:
    """Where the keys of a sequence are cut. They decide its bits, so no launch may choose them."""

    tile: int  # keys
    near: int  # tiles a chunk below tile `turn`
    far: int  # and beyond it
    turn: int

    def most_chunks(self, paged: Paged) -> int:
        """Chunks of the longest sequence that the page table can hold."""
        tiles = -(-paged.page_table.shape[1] * paged.page_size // self.tile)
        near, far = min(tiles, self.turn), max(tiles - self.turn, 0)
        return -(-near // self.near) + -(-far // self.far)

    @cached_property
    def fixed(self) -> dict[str, int | bool]:
        """What every kernel of an attention is given. Fused multiply-adds are off: else a merge in
        `attend` and one in `finish` may round apart.
        """
        names = {"BT": self.tile, "NEAR": self.near, "FAR": self.far, "TURN": self.turn}
        return {**names, "REACH": REACH, "enable_fp_fusion": False}


CUTS = Cuts(tile=64, near=2, far=16, turn=64)


@dataclass(frozen=True)
class Blocks:
    """How the work of one launch is cut. No choice here changes a bit of the result."""

    rows: int  # tokens x heads of one key-value head that share a loaded tile
    whole: bool  # one program walks all chunks of its rows, instead of one program a chunk
    warps: int = 4
    stages: int = 3  # 1 and two for each tile that is on its way: its slots are loaded first


@dataclass(frozen=True)
class Tail:
    """How many tokens' tails share a program, and the rows that each has in it."""

    nodes: int
    heads: int  # of a key-value head, up to a power of two

    @classmethod
    def of(cls, new: int, group: int) -> Tail:
        heads = 1 << (group - 1).bit_length()
        return cls(1 if new == 1 else min(TAIL_NODES, TAIL_ROWS // heads), heads)


def plan(
    start: torch.Tensor, page_table: torch.Tensor, new: int, pattern: str | torch.Tensor, page: int
) -> tuple[torch.Tensor, Paged]:
    """Write slots [B, N] and the kernels' plan, in one launch."""
    rows, device = start.shape[0], start.device
    write = torch.empty(rows, new, dtype=torch.int64, device=device)
    last = torch.empty(rows, new, dtype=torch.int32, device=device)
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
        new,
        W=words_for(new),
        PAGE=page,
        REACH=REACH,
        PATTERN=PATTERNS["tree" if isinstance(pattern, torch.Tensor) else pattern],
        num_warps=2,
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
    group, most = heads // kv_heads, CUTS.most_chunks(paged)
    cut = blocks or choose(q, kv_heads, most)
    chunks = min(most, 1) if cut.whole else most
    parts = 1 + chunks
    tail = Tail.of(new, group)
    acc, weights = (
        torch.empty(q.numel() // dim * parts * size, dtype=torch.float32, device=q.device)
        for size in (dim, 2)
    )
    across = -(-new * group // cut.rows)
    fixed = CUTS.fixed | {"D": dim, "WHOLE": cut.whole}
    kernel.attend[(across * chunks + -(-new // tail.nodes), kv_heads, batch)](
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
        chunks,
        math.log2(math.e) / math.sqrt(dim),
        G=group,
        HEADS=tail.heads,
        NODES=tail.nodes,
        HKV=kv_heads,
        BR=cut.rows,
        PAGE=paged.page_size,
        GRAIN=GRAIN,
        TREE=paged.path is not None,
        num_warps=cut.warps,
        num_stages=cut.stages,
        **fixed,
    )
    merge((acc, weights), paged, out, parts, fixed | {"UNROLL": UNROLL if chunks > 1 else 1})


def merge(
    states: tuple[torch.Tensor, torch.Tensor],
    paged: Paged,
    out: torch.Tensor,
    parts: int,
    fixed: dict[str, int | bool],
) -> None:
    """The states of each row into `out`. A tile of which one grain is a chunk's counts as one."""
    *_, heads, dim = out.shape
    fixed = fixed | {"REACH": REACH + GRAIN - CUTS.tile}
    finish = kernel.finish[(out.numel() // dim,)]
    finish(*states, paged.last, out, parts, HQ=heads, num_warps=1, **fixed)


def choose(q: torch.Tensor, kv_heads: int, chunks: int) -> Blocks:
    """Blocks for these shapes: enough programs to fill the device, few states to store.

    64 rows are another matrix instruction than 16 or 32, and only Hopper rounds both alike.
    """
    batch, new, heads, dim = q.shape
    rows = new * heads // kv_heads
    few = rows <= 32 or not limits(q.device).one_rounding or q.dtype == torch.float32
    block = 16 if rows <= 16 else 32 if few else 64
    programs = batch * kv_heads * -(-rows // block)
    stored = batch * new * heads * (chunks + 1)
    device = limits(q.device)
    whole = chunks <= 1 or programs >= 2 * device.multiprocessors or stored > SCRATCH
    stage = 2 * CUTS.tile * dim * q.element_size()
    room = device.shared - block * dim * 4 - 8192
    ahead = max(1, min(1 if block > 32 else 2, room // stage))
    return Blocks(block, whole, stages=1 + 2 * ahead)

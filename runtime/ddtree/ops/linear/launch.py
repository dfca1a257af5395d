"""Grids, scratch and tuning constants of the skinny product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from ddtree.ops.backend import limits
from ddtree.ops.linear import kernel
from ddtree.ops.overlap import overlapped

PLAIN, RESIDUAL, GATED = 0, 1, 2
UNIT = 64  # spans are multiples of it
PROGRAMS = 384  # wanted at one token: about three a multiprocessor of an H100-sized device
LEAST = 192  # columns that a span is worth
MANY = 128  # tokens above which one program walks all of K, and none stores a part
SIZES = ((16, 0), (32, 0), (32, 16), (64, 0), (64, 16))  # BM, BE
BUSY = 96  # programs below which smaller tiles are better
FETCHED = 8  # cache lines of each weight row that a program asks for ahead


@dataclass(frozen=True)
class Cut:
    """How K is summed. By the weight's shape alone: a row's sum knows no other row."""

    span: int  # columns
    splits: int


@dataclass(frozen=True)
class Blocks:
    """How a launch is tiled. No choice here changes a bit of the result."""

    rows: int  # BN, weight rows
    tokens: int  # BM
    extra: int  # BE, 0 or 16
    width: int  # BK
    warps: int
    stages: int
    whole: bool = False


def cut(rows: int, k: int) -> Cut:
    """The fixed cut of a weight [rows, k]: even spans, as many as programs are wanted."""
    units = -(-k // UNIT)
    most = max(1, min(PROGRAMS // -(-rows // 64), k // LEAST))
    splits = max(s for s in range(1, most + 1) if units % s == 0)
    return Cut(units // splits * UNIT, splits)


def choose(m: int, n: int, mode: int, how: Cut, x: torch.Tensor) -> Blocks:
    """Tiles for m tokens: few bytes of x a byte of weight, two programs a multiprocessor."""
    device = limits(x.device)
    pieces = 2 if mode == GATED else 1
    tokens, extra = next(((t, e) for t, e in SIZES if m <= t + e), (128, 0))
    wide = tokens >= 64 and mode != GATED and -(-n // 128) * how.splits >= BUSY
    rows = 128 if wide else 64
    if tokens == 128 and -(-n // rows) * how.splits < BUSY:
        tokens = 64
    width = 128 if tokens == 16 and how.span % 128 == 0 else 64
    warps = 8 if tokens == 128 else 4
    stage = (rows * pieces + tokens + extra) * width * x.element_size()
    room = device.shared - 4096 if tokens == 128 else device.shared // 2 - 4096
    tiles = -(-n // rows) * -(-m // (tokens + extra))
    whole = m > MANY and tiles >= device.multiprocessors
    return Blocks(rows, tokens, extra, width, warps, max(2, min(5, room // stage)), whole)


@cache
def counts(device: torch.device) -> torch.Tensor:
    """How many splits of each tile have arrived: all 0 between launches. One stream at a time."""
    return torch.zeros(1 << 14, dtype=torch.int32, device=device)


def run(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    mode: int,
    residual: torch.Tensor | None = None,
    blocks: Blocks | None = None,
) -> None:
    """x [M, K] by weight [N, K] (GATED: [2 N, K]) into out [M, N]; all contiguous."""
    (m, k), n = x.shape, out.shape[1]
    how = cut(weight.shape[0], k)
    tile = blocks or choose(m, n, mode, how, x)
    across = -(-m // (tile.tokens + tile.extra))
    tiles = -(-n // tile.rows) * across
    split = how.splits > 1 and not tile.whole
    part = out
    if split:
        pieces = 2 if mode == GATED else 1
        size = tiles * how.splits * pieces * tile.rows * (tile.tokens + tile.extra)
        part = torch.empty(size, dtype=torch.float32, device=x.device)
        assert tiles <= counts(x.device).numel(), "more tiles than counters"
    kernel.linear[(tiles, how.splits if split else 1)](
        x,
        weight,
        out,
        out if residual is None else residual,
        part,
        counts(x.device),
        m,
        n,
        across,
        K=k,
        BN=tile.rows,
        BM=tile.tokens,
        BE=tile.extra,
        BK=tile.width,
        SPAN=how.span,
        SPLITS=how.splits,
        EVEN=how.span * how.splits == k,
        WHOLE=tile.whole,
        MODE=mode,
        LINES=FETCHED,
        num_warps=tile.warps,
        num_stages=tile.stages,
        enable_fp_fusion=False,  # the sum of parts is the same in both kinds of program
        **overlapped(x),
    )

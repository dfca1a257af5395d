"""Grids, scratch and tuning constants of the skinny product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch

from ddtree.ops.backend import Limits, limits
from ddtree.ops.half_norm import Begun, Half
from ddtree.ops.linear import kernel
from ddtree.ops.linear.norms import norms_of

PLAIN, RESIDUAL, GATED = 0, 1, 2
TILE = 64  # weight rows of a tile of a wide weight
PROGRAMS = 132  # wanted at one token: one a multiprocessor of an H100-sized device
LEAST_STEPS = 3  # tiles of K that a split is worth
MANY = 128  # tokens above which one program walks all of K, and none stores a part

# A wide weight has a program a multiprocessor for every 64 of its rows, with as much of K under
# way as shared memory holds, or three programs a multiprocessor where its rows are many. A split
# more than that only adds a counter. us a launch, H200, cold weights, twice as many splits / now,
# at 1, 17, 33 and 65 tokens (measured as variants of the code before):
#   6144 x 4096    16.1 / 15.2                  18.6 / 17.5    20.6 / 17.6
#   4096 x 4096    11.8 / 11.8                  14.0 / 13.6    16.1 / 15.1
#   24576 x 4096          48.4                         52.0           53.9 (gated, not split)
#   4096 x 12288   28.3 / 28.0                  31.5 / 31.2    34.2 / 33.2
#   7168 x 1024     7.9 / 6.1      8.4 / 6.3
#   7168 x 2304    11.6 / 10.4                  14.1 / 12.4
#   4608 x 7168    20.2 / 19.2    21.9 / 20.6 (gated, 3 splits before)
#   2112 x 7168    11.0 / 10.9    11.9 / 11.4 (7 splits before, 4 now)
# At 512 and 1088 tokens, tiles of 128 / 256 tokens: 6144 x 4096 57 / 52 and 115 / 104, 24576 x 4096
# 166 / 144 and 408 / 375; 4096 x 12288 84 / 135 and 246 / 281
# (in 4 splits), for it has too few of them.
MOST = 80  # tokens up to which they are one tile and one beside it
# us with 112 / 148 / 200 KiB: 6144 x 4096 17.4 / 16.4 / 16.6 at 33 tokens, 19.1 / 17.4 / 17.6 at
# 65, 19.9 / 18.3 at 128 (with all there is); 4096 x 12288 33.4 / 32.3 / 33.0 at 65.
DEEP, DEEPER = 112 << 10, 148 << 10  # bytes under way up to 32 tokens, and up to MOST
BROAD = 6144  # weight rows whose tiles of 128 x 256 fill a device from 512 tokens on

# A narrow weight waits for memory's latency, not for its bandwidth: 16 rows a program, all of K in
# flight at once, more tokens by more programs, for the device is half empty. us a launch, H200, 30
# weights in a row, before / after, at 1, 17, 64 and 1088 tokens:
#   960 x 576     2.6 / 2.6    3.3 / 2.9     3.9 / 3.2     5.5
#   576 x 576     3.1 / 3.0    3.5 / 3.1     4.2 / 3.3     5.4
#   3072 x 576    3.8 / 3.6    4.3 / 4.1     5.6 / 4.1    12.8 / 10.4 (gated)
#   576 x 1536    4.2 / 3.7    4.3 / 3.7     6.3 / 4.7    11.1 / 9.7
#   1536 x 1536   5.2 / 4.1    5.4 / 4.8     6.5 / 5.5 at 33, 8.2 / 6.0 at 65
#   384 + 512 x 7168   7.7 / 6.9    8.9 / 8.4    14.3 / 9.7 at 33, 17.1 / 12.5 at 65 (linear_pair)
# The last three have their K in four parts, a warp each: one was as long as all its loads. At 80
# tokens the first three 3.3 / 3.0, 3.7 / 3.2 and 5.6 / 4.4; at 128 the fourth 6.4 / 5.5. Since then
# the first three take 64 rows a program from few tokens on, where all round alike: with halves of
# norms, at 64 tokens, 3.0 / 2.9, 2.9 / 2.7 and 4.1 / 3.9, and the third at 32 4.1 / 3.7.
NARROW = 13 << 19  # entries of such a weight
LONGEST = 9  # tiles of K one part sums: 576 of SmolLM2 in one, 1536 in four of six


@dataclass(frozen=True)
class Cut:
    """How K is summed. By the weight's shape alone: a row's sum knows no other row."""

    span: int  # features a part sums
    splits: int
    parts: int = 1  # of a split

    def even(self, k: int) -> bool:
        return k == self.span * self.parts * self.splits


@dataclass(frozen=True)
class Blocks:
    """How a launch is tiled. No choice here changes a bit of the result."""

    rows: int  # BN, weight rows; of a gated product half are gate's and half up's
    tokens: int  # BM
    warps: int
    stages: int
    whole: bool
    beside: int = 0  # more tokens, of the same tile of weights
    width: int = 64  # BK: divides a cut's span
    abreast: bool = False  # parts side by side, four warps for four


def narrow(rows: int, k: int) -> bool:
    """Whether a weight [rows, k] is too small to fill a device with tiles of 64 rows."""
    return rows < 64 * TILE and rows * k <= NARROW


def cut(rows: int, k: int) -> Cut:
    """The fixed cut of a weight [rows, k]; of a gated one both halves are counted."""
    if narrow(rows, k):
        tiles = -(-k // 64)
        parts = 4 if tiles > LONGEST and tiles % 4 == 0 else 1
        splits = -(-tiles // (parts * LONGEST))
        return Cut(64 * -(-tiles // (parts * splits)), splits, parts)
    width = 128 if k % 128 == 0 and k >= 2048 else 64
    tiles, programs = -(-k // width), -(-rows // TILE)
    wanted = max(1, PROGRAMS // programs)
    steps = max(-(-tiles // wanted), min(LEAST_STEPS, tiles))
    return Cut(width * steps, -(-tiles // steps))


def choose(m: int, n: int, mode: int, x: torch.Tensor) -> Blocks:
    """Tiles for m tokens and n outputs: few bytes of x a byte of weight, within the shared memory.

    A tile of 64 weight rows and 4 warps is another matrix instruction than one of 16. On Hopper
    both round alike (tests/gpu); elsewhere a narrow weight keeps to one of them, whatever m is.
    """
    rows, k = 2 * n if mode == GATED else n, x.shape[1]
    how, device = cut(rows, k), limits(x.device)
    if not narrow(rows, k):
        alone = m <= MANY and -(-rows // TILE) * how.splits <= device.multiprocessors
        deep = device.shared if not alone or m > MOST else DEEP if m <= 32 else DEEPER
        tile = wide_tile(m, mode, how, alone=alone)
        broad = replace(tile, tokens=256, stages=4, width=64)
        if m >= 512 and rows >= BROAD and tile.width == 128:
            tile = broad if fitted(broad, device.shared, x) == broad else tile
        return fitted(tile, min(device.shared, deep), x)
    tile = narrow_tile(m, rows, mode, how, device)
    count = -(-rows // tile.rows) * -(-m // (tile.tokens + tile.beside)) * how.splits
    room = device.shared if count <= device.multiprocessors else device.shared // 2
    longer = replace(tile, width=128, stages=how.span // 128 + 1)
    if tile.abreast and tile.tokens > 16 and how.span % 128 == 0:
        tile = longer if fitted(longer, room, x) == longer else tile
    return fitted(tile, room, x)


def wide_tile(m: int, mode: int, how: Cut, *, alone: bool) -> Blocks:
    """Tiles of 64 weight rows for two or three programs a multiprocessor, or for one alone."""
    tokens, beside = widths(m, mode)
    width = 128 if how.span % 128 == 0 and how.span * how.splits >= 2048 else 64
    if alone:
        return Blocks(TILE, tokens, 4, how.span // 64 + 1, whole=False, beside=beside)
    if m > MOST:
        return Blocks(128, tokens, 8, 3, m > MANY, beside, width)
    if mode == GATED and m > 32:
        return Blocks(TILE, tokens, 4, 5 if m <= 48 else 4, whole=False, beside=beside)
    return Blocks(TILE, tokens, 4, 3, False, beside, width)


def narrow_tile(m: int, rows: int, mode: int, how: Cut, device: Limits) -> Blocks:
    """Tiles of 16 weight rows; of more where they round alike and tokens are many."""
    gated, one = mode == GATED, device.one_rounding
    if m > MANY and one:
        if -(-rows // 128) * -(-m // 128) >= device.multiprocessors:
            return Blocks(128, 128, 8, 3, whole=True)
        return Blocks(128 if gated else 64, 64, 4, 4, whole=True)
    if m <= MANY and how.parts > 1:
        return abreast_tile(m, rows, how, device)
    if one and m > (16 if gated else 32):
        tokens = 16 if not gated or m <= 32 else 32 if m <= 64 else 64
        return Blocks(64, tokens, 4, 6, whole=False)
    tokens = 16 if m <= 64 else 64
    return Blocks(32 if gated and m > 16 else 16, tokens, 2, 8, whole=m > MANY)


def abreast_tile(m: int, rows: int, how: Cut, device: Limits) -> Blocks:
    """Four parts side by side: the smallest tile of which a device holds all at once, or the last.

    Many splits are more than it holds in any case: larger tiles read less of x.
    """
    all_k = how.span // 64 + 1
    sizes = [(16, 16, all_k), (32, 16, 4)] if m <= 32 else [(16, 32, all_k), (32, 32, 3)]
    if how.splits > 1:
        sizes = [(16, 16, all_k) if m <= 16 else (16, 32, all_k) if m <= 32 else (32, 32, 3)]
    elif m > 32 and device.one_rounding:
        sizes.append((64, 16, 3))
    held = (
        size for size in sizes if -(-rows // size[0]) * -(-m // size[1]) <= device.multiprocessors
    )
    high, tokens, stages = next(held, sizes[-1])
    return Blocks(high, tokens, 4, stages, whole=False, abreast=True)


def fitted(tile: Blocks, room: int, x: torch.Tensor) -> Blocks:
    """As many stages of it as there is shared memory for."""
    stage = (tile.rows + tile.tokens + tile.beside) * tile.width * x.element_size()
    stage *= 4 if tile.abreast else 1
    return replace(tile, stages=max(2, min(tile.stages, (room - 2048) // stage)))


def widths(m: int, mode: int) -> tuple[int, int]:
    """Tokens of a tile and of the one beside it."""
    if m <= 32:
        return (16, 0) if m <= 16 else (16, 16) if mode == GATED else (32, 0)
    if m <= 64:
        return (32, 16) if m <= 48 else (64, 0)
    return (64, 16) if m <= MOST else (128, 0)


@cache
def counts(device: torch.device) -> torch.Tensor:
    """How many splits of each tile have arrived: all 0 between launches. One stream at a time."""
    return torch.zeros(1 << 14, dtype=torch.int32, device=device)


def run(
    x: torch.Tensor | Half,
    weight: torch.Tensor,
    out: torch.Tensor | Begun,
    mode: int,
    residual: torch.Tensor | None = None,
    blocks: Blocks | None = None,
) -> None:
    """x [M, K] by weight [N, K] (GATED: [2 N, K]) into out [M, N]; all contiguous."""
    norms = norms_of(x, out)
    x, out = x.x if isinstance(x, Half) else x, out.h if isinstance(out, Begun) else out
    (m, k), n = x.shape, out.shape[1]
    how = cut(2 * n if mode == GATED else n, k)
    tile = blocks or choose(m, n, mode, x)
    across = -(-m // (tile.tokens + tile.beside))
    tiles = -(-n // (tile.rows // 2 if mode == GATED else tile.rows)) * across
    added = out if residual is None else residual
    kernel.linear[(tiles, programs(how, tile))](
        x,
        weight,
        out,
        added,
        *norms.tensors,
        *scratch(tiles, how, tile, x),
        m,
        n,
        across,
        norms.eps,
        MODE=mode,
        **constants(k, how, tile),
        **norms.constants,
    )


def run_pair(
    x: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor],
    outs: tuple[torch.Tensor, torch.Tensor],
    blocks: Blocks | None = None,
) -> None:
    """x [M, K] by weights [N, K] and gated [2 F, K] into outs [M, N] and [M, F]."""
    (m, k), n, f = x.shape, outs[0].shape[1], outs[1].shape[1]
    how = cut(n + 2 * f, k)
    tile = blocks or choose(m, n + 2 * f, PLAIN, x)
    across = -(-m // (tile.tokens + tile.beside))
    first = -(-n // tile.rows) * across
    tiles = first + -(-2 * f // tile.rows) * across
    kernel.pair[(tiles, programs(how, tile))](
        x,
        weights[0],
        outs[0],
        weights[1],
        outs[1],
        *scratch(tiles, how, tile, x),
        m,
        n,
        f,
        across,
        first,
        **constants(k, how, tile),
    )


def programs(how: Cut, tile: Blocks) -> int:
    """Programs that share a tile."""
    return 1 if tile.whole else how.splits


def scratch(
    tiles: int, how: Cut, tile: Blocks, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for the parts of all tiles, and their counters."""
    counters = counts(x.device)
    if programs(how, tile) == 1:
        return x, counters
    assert tiles <= counters.numel(), "more tiles than counters"
    size = tiles * how.splits * tile.rows * (tile.tokens + tile.beside)
    return torch.empty(size, dtype=torch.float32, device=x.device), counters


def constants(k: int, how: Cut, tile: Blocks) -> dict[str, int | bool]:
    """What a kernel is compiled for. Without fused multiply-adds, so that the sum of parts is the
    same in both kinds of program.
    """
    return {
        "K": k,
        "BN": tile.rows,
        "BM": tile.tokens,
        "BESIDE": tile.beside,
        "BK": tile.width,
        "STEPS": how.span // tile.width,
        "PARTS": how.parts,
        "SPLITS": how.splits,
        "EVEN": how.even(k),
        "ABREAST": tile.abreast,
        "WHOLE": tile.whole,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
        "enable_fp_fusion": False,
    }

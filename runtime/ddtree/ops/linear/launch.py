"""Grids, scratch and tuning constants of the skinny product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch

from ddtree.ops.backend import Limits, limits
from ddtree.ops.linear import kernel

PLAIN, RESIDUAL, GATED = 0, 1, 2
TILE = 64  # weight rows of a tile of a wide weight
PROGRAMS = 256  # wanted at one token: about two a multiprocessor of an H100-sized device
LEAST_STEPS = 3  # tiles of K that a split is worth
MANY = 128  # tokens above which one program walks all of K, and none stores a part

# A wide weight is read by three small programs a multiprocessor, its tokens held by each. us a
# launch, H200, cold weights, before / after, at 1, 17, 33 and 65 tokens (M and BESIDE below):
#   6144 x 4096    16.0 / 16.2    17.1         19.0 / 18.5    25.1 / 20.7
#   4096 x 4096    11.9 / 11.8    13.1         15.3 / 14.3    22.0 / 16.3
#   24576 x 4096   53.0 / 49.0    54.1 / 50.9  56.0 / 53.9    69.3 / 57.0 (gated)
#   4096 x 12288   29.2 / 29.3    30.7         34.0 / 32.5    41.2 / 35.6
#   151936 x 4096  280.7 / 280.7  289.7        296.8 / 299.2
MOST = 80  # tokens up to which they are one tile and one beside it

# Where nearly every multiprocessor has one tile of 64 rows to read, a split only adds a counter:
# one program a tile, with as much of K under way as shared memory holds. As above, in 2 / 1 splits:
#   7168 x 1024     7.9 / 6.1      8.4 / 6.3
#   7168 x 2304    11.6 / 10.4
ALONE = 100  # tiles
DEEP = 112 << 10  # bytes under way

# A narrow weight waits for memory's latency, not for its bandwidth: 16 rows a program, all of K in
# flight at once, more tokens by more programs, for the device is half empty. us a launch, H200, 30
# weights in a row, before / after, at 1, 17, 64 and 1088 tokens:
#   960 x 576     2.6 / 2.6    3.3 / 2.9     3.9 / 3.2     5.5
#   576 x 576     3.1 / 3.0    3.5 / 3.1     4.2 / 3.3     5.4
#   3072 x 576    3.8 / 3.6    4.3 / 4.1     5.6 / 4.1    12.8 / 10.1 (gated)
#   576 x 1536    4.2 / 3.7    4.3 / 3.7     6.3 / 4.4    11.0 / 12.0
#   1536 x 1536   5.2 / 4.1
#   384 + 512 x 7168   7.7 / 6.9    8.9 / 7.9 (linear_pair)
# The last three have their K in four parts, a warp each: one was as long as all its loads.
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
    wanted = max(1, PROGRAMS // programs) if programs < ALONE else 1
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
        alone = m <= MOST and -(-rows // TILE) * how.splits <= device.multiprocessors
        tile = wide_tile(m, mode, how, alone=alone)
        return fitted(tile, min(device.shared, DEEP if alone else device.shared), x)
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
    if m > MOST:
        return Blocks(128, tokens, 8, 3, m > MANY, beside, width)
    if alone:
        return Blocks(TILE, tokens, 4, how.span // 64 + 1, whole=False, beside=beside)
    if mode == GATED and m > 32:
        return Blocks(TILE, tokens, 4, 5 if m <= 48 else 4, whole=False, beside=beside)
    return Blocks(TILE, tokens, 4, 3, False, beside, width)


def narrow_tile(m: int, rows: int, mode: int, how: Cut, device: Limits) -> Blocks:
    """Tiles of 16 weight rows; of more where they round alike and tokens or splits are many."""
    gated, one = mode == GATED, device.one_rounding
    if m > MANY and one:
        if -(-rows // 128) * -(-m // 128) >= device.multiprocessors:
            return Blocks(128, 128, 8, 3, whole=True)
        return Blocks(128 if gated else 64, 64, 4, 4, whole=True)
    if m > 32 and one and how.splits * how.parts > how.parts > 1:
        tokens, beside = widths(m, mode) if m <= MOST else (64, 0)
        return Blocks(64, tokens, 4, how.span // 64 + 1, whole=False, beside=beside)
    if m <= MANY and how.parts > 1:
        tokens = 16 if m <= (16 if how.splits > 1 else 32) else 32
        return Blocks(16, tokens, 4, how.span // 64 + 1, whole=False, abreast=True)
    if one and m > (32 if gated else 64):
        return Blocks(64, 32, 4, 10, whole=False)
    tokens = 16 if m <= 64 else 64
    return Blocks(32 if gated and m > 16 else 16, tokens, 2, 8, whole=m > MANY)


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
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    mode: int,
    residual: torch.Tensor | None = None,
    blocks: Blocks | None = None,
) -> None:
    """x [M, K] by weight [N, K] (GATED: [2 N, K]) into out [M, N]; all contiguous."""
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
        *scratch(tiles, how, tile, x),
        m,
        n,
        across,
        MODE=mode,
        **constants(k, how, tile),
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

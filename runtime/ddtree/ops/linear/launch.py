"""Grids, scratch and tuning constants of the skinny product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from ddtree.ops.backend import limits
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

# A small weight waits for memory's latency, not for its bandwidth: few rows a program and all of K
# in flight at once beat splits that meet at a counter. us a launch, H200, 30 weights in a row,
# before / after, at 1, 17, 65 and 1088 tokens:
#   960 x 576     3.7 / 3.1    4.3 / 3.4     8.2 / 4.2    9.7 / 5.8
#   576 x 576     3.7 / 3.1    4.5 / 3.5     8.5 / 4.4    9.9 / 5.8
#   3072 x 576    4.8 / 4.4    5.7 / 4.8     9.0 / 6.1   20.4 / 13.6 (gated)
#   576 x 1536    4.8 / 4.3    6.2 / 4.8    12.0 / 6.7   21.2 / 9.7
SMALL = 4 << 20  # entries of such a weight
LONGEST = 9  # tiles of K one program sums: 576 of SmolLM2 in one split, 1536 in three
FEW = 32  # tokens up to which 16 weight rows a program are best


@dataclass(frozen=True)
class Cut:
    """How K is summed. By the weight's shape alone: a row's sum knows no other row."""

    width: int  # BK
    steps: int  # tiles of K a split
    splits: int

    def even(self, k: int) -> bool:
        return k == self.width * self.steps * self.splits


@dataclass(frozen=True)
class Blocks:
    """How a launch is tiled. No choice here changes a bit of the result."""

    rows: int  # BN, weight rows; of a gated product half are gate's and half up's
    tokens: int  # BM
    warps: int
    stages: int
    whole: bool
    beside: int = 0  # more tokens, of the same tile of weights


def cut(n: int, k: int) -> Cut:
    """The fixed cut of a weight [n, k] (n: outputs)."""
    if n * k <= SMALL:
        tiles = -(-k // 64)
        steps = -(-tiles // -(-tiles // LONGEST))
        return Cut(64, steps, -(-tiles // steps))
    width = 128 if k % 128 == 0 and k >= 2048 else 64
    tiles = -(-k // width)
    wanted = max(1, PROGRAMS // -(-n // TILE))
    steps = max(-(-tiles // wanted), min(LEAST_STEPS, tiles))
    return Cut(width, steps, -(-tiles // steps))


def choose(m: int, n: int, mode: int, x: torch.Tensor) -> Blocks:
    """Tiles for m tokens and n outputs: few bytes of x a byte of weight, within the shared memory.

    A tile of 64 weight rows and 4 warps is another matrix instruction than one of 16. On Hopper
    both round alike (tests/gpu); elsewhere a small weight keeps to one of them, whatever m is.
    """
    gated, k = mode == GATED, x.shape[1]
    tokens, beside = widths(m, mode)
    if n * k <= SMALL:
        tokens, beside = 16 if m <= 16 else 32 if m <= 32 else 64, 0
        few = m <= FEW or not limits(x.device).one_rounding
        rows, warps, most = (16, 2, 8) if few else (64, 4, 8 if m <= MANY else 4)
        rows *= 2 if gated else 1
    elif m <= MOST:
        rows, warps, most = TILE, 4, 2 if gated and m > 32 else 3
    else:
        rows, warps, most = 128, 8, 4
    stage = (rows + tokens + beside) * cut(n, k).width * x.element_size()
    stages = max(2, min(most, (limits(x.device).shared - 2048) // stage))
    return Blocks(rows, tokens, warps, stages, whole=m > MANY, beside=beside)


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
    how = cut(n, k)
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
        "BK": how.width,
        "STEPS": how.steps,
        "SPLITS": how.splits,
        "EVEN": how.even(k),
        "WHOLE": tile.whole,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
        "enable_fp_fusion": False,
    }

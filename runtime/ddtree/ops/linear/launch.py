"""Grids, scratch and tuning constants of the skinny product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from ddtree.ops.backend import limits
from ddtree.ops.linear import kernel

PLAIN, RESIDUAL, GATED = 0, 1, 2
TILE = 64  # weight rows of the smallest tile of a wide weight
PROGRAMS = 256  # wanted at one token: about two a multiprocessor of an H100-sized device
LEAST_STEPS = 3  # tiles of K that a split is worth
MANY = 128  # tokens above which one program walks all of K, and none stores a part

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

    rows: int  # BN, weight rows
    tokens: int  # BM
    warps: int
    stages: int
    whole: bool


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
    pieces = 2 if mode == GATED else 1
    k = x.shape[1]
    tokens = 16 if m <= 16 else 32 if m <= 32 else 64
    if n * k <= SMALL:
        few = m <= FEW or not limits(x.device).one_rounding
        rows, warps, most = (16, 2, 8) if few else (64, 4, 8 if m <= MANY else 4)
    else:
        tokens = 128 if m > 64 else tokens
        rows = TILE if tokens <= 32 or mode == GATED else 128
        warps, most = (4 if rows * tokens * pieces <= 64 * 128 else 8), 4
    stage = (rows * pieces + tokens) * cut(n, k).width * x.element_size()
    stages = max(2, min(most, (limits(x.device).shared - 2048) // stage))
    return Blocks(rows, tokens, warps, stages, whole=m > MANY)


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
    across = -(-m // tile.tokens)
    tiles = -(-n // tile.rows) * across
    split = how.splits > 1 and not tile.whole
    part = out
    if split:
        pieces = 2 if mode == GATED else 1
        size = tiles * how.splits * pieces * tile.rows * tile.tokens
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
        BK=how.width,
        STEPS=how.steps,
        SPLITS=how.splits,
        EVEN=how.even(k),
        WHOLE=tile.whole,
        MODE=mode,
        num_warps=tile.warps,
        num_stages=tile.stages,
        enable_fp_fusion=False,  # the sum of parts is the same in both kinds of program
    )

"""Which token goes to which program, and the launches of a mixture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ddtree.ops.backend import limits
from ddtree.ops.experts import kernel
from ddtree.ops.experts.packed import LINE, Packed
from ddtree.ops.experts.packed import kernel as packed_kernel

# Floats: pairs, outputs, features a tile. Not tuned on a device.
BM, BN, BK = 16, 64, 64
# INT4: weights meet 8 columns of tokens an instruction, so a tile of 8 wastes least on few tokens;
# with many, unpacking is shared by more. A column's sum is the same in either.
PACKED_BM, MANY_BM = 8, 16
MANY = 8  # pairs an expert
LONE = 4  # tokens whose pairs are a tile each: hardly any two of them share an expert
BP = 8  # pairs that a program of `arrange` places: 2.8 us with 72 of them, 3.3 with 32
COUNTED = 256  # pairs that it counts at once
OUTPUTS = 32  # that a program of `combine` sums
MOST_TOKENS = 16  # of it


# Packed products. us on an H200 for a rank of 8 of Kimi-K2.6, uniform draws, with 1, 9, 33, 65 and
# 600 tokens; in brackets by loads to registers, half a line ahead. Gate and up: 9.0, 42.8, 107,
# 160, 361 (10.1, 44.3, 112, 166, 523); 16 rows 47.4 with 9, 132 with 33, 439 with 600, two stages
# 10.6, 42.7, 105, 162. Down: 5.5, 23.0, 55.5, 80.9, 166 (6.0, 24.9, 60.0, 87.9, 223); 16 rows
# 23.1 with 9, 157 with 600, two stages 6.8, 25.9, 62.6, 92.8.
# Chosen by loads to registers, with 1, 9, 33 and 65 tokens: of gate and up (10.7, 45.7, 115, 167)
# segments, which make a sum's bits, one 37, 53, 116, 169, two 17.8, 49.4, 111, 162; of down (6.4,
# 25.9, 60.7, 87.8) the walk, of 7 8.3, 27.0, 60.0, 85.1, of 2 5.9, 30.7 and 81 with 33.
SEGMENTS = 4
ROWS, LONE_ROWS = 32, 16
WALK = 4  # blocks of ROWS that a program of one line takes


@dataclass(frozen=True)
class Tiles:
    """Pairs (token, slot) cut into tiles of one expert each.

    There are as many tiles as any routing could need; the surplus ones belong to expert E. A pair
    whose expert is E is in none.
    """

    owner: torch.Tensor  # [T] int, expert of a tile
    pairs: torch.Tensor  # [T, size] int32, -1: none; unset in surplus tiles, and where `lone`
    size: int
    lone: bool  # tile t is pair t alone


def tiles(chosen: torch.Tensor, experts: int, size: int = BM) -> Tiles:
    """chosen [M, K] int64, contiguous; no shape depends on its values."""
    total = chosen.numel()
    if len(chosen) <= LONE:
        return Tiles(chosen.view(-1), chosen, size, lone=True)
    count = min(total, experts + total // size)
    owner = torch.empty(count, dtype=torch.int32, device=chosen.device)
    pairs = torch.empty(count, size, dtype=torch.int32, device=chosen.device)
    kernel.arrange[(-(-total // BP),)](
        chosen,
        owner,
        pairs,
        total,
        count,
        EXPERTS=experts,
        BE=1 << experts.bit_length(),
        BM=size,
        BP=BP,
        BC=COUNTED,
        num_warps=4,
    )
    return Tiles(owner, pairs, size, lone=False)


def run(
    x: torch.Tensor,  # [M, H]
    stacks: tuple[torch.Tensor | Packed, torch.Tensor | Packed],
    chosen: torch.Tensor,  # [M, K] int64
    weights: torch.Tensor,  # [M, K] float32
    residual: torch.Tensor,  # [M, H]
    shared: tuple[torch.Tensor, torch.Tensor] | None,  # [M, S], [H, S]
) -> torch.Tensor:
    """[M, H] in x's dtype. Everything contiguous."""
    gate_up, down = stacks
    (m, hidden), k = x.shape, chosen.shape[1]
    cut = tiles(chosen, down.shape[0], _pairs(chosen.numel(), gate_up, down))
    held = torch.empty(m * k, down.shape[2], dtype=x.dtype, device=x.device)
    part = torch.empty(m * k, hidden, dtype=torch.float32, device=x.device)
    _multiply(x, gate_up, held, cut, top=k)
    _multiply(held, down, part, cut)
    return _combine(part, weights, residual, shared)


def _combine(
    part: torch.Tensor,  # [M K, H] float32
    weights: torch.Tensor,
    residual: torch.Tensor,
    shared: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    out = torch.empty_like(residual)
    m, hidden = out.shape
    inner, down = (out, out) if shared is None else shared
    tokens = min(max(8, 1 << (m - 1).bit_length()), MOST_TOKENS)
    kernel.combine[(-(-hidden // OUTPUTS), -(-m // tokens))](
        part,
        weights,
        residual,
        inner,
        down,
        out,
        m,
        hidden,
        TOP=weights.shape[1],
        K=0 if shared is None else inner.shape[1],
        BN=OUTPUTS,
        BM=tokens,
        BK=BK,
        num_warps=2,
        enable_fp_fusion=False,  # tiles of few tokens and of many round alike
    )
    return out


def _pairs(count: int, *stacks: torch.Tensor | Packed) -> int:
    """Of a tile, which both products of a mixture share."""
    packed = [isinstance(stack, Packed) for stack in stacks]
    if not all(packed):
        return BM
    return MANY_BM if count > MANY * stacks[0].shape[0] else PACKED_BM


def _multiply(
    x: torch.Tensor, stack: torch.Tensor | Packed, y: torch.Tensor, cut: Tiles, top: int = 0
) -> None:
    """Every tile's rows of x by its expert's matrix into y [pairs, N].

    `top` pairs share a row of x, and the matrix [2 N, K] is gate and up; 0: [N, K], a row a pair.
    """
    if isinstance(stack, Packed):
        if top or stack.features > LINE:
            _segmented(x, stack, y, cut, top)
        else:
            _walked(x, stack, y, cut)
        return
    outputs = y.shape[1]
    kernel.multiply[(cut.owner.numel(), -(-outputs // BN))](
        x,
        stack,
        y,
        cut.owner,
        cut.pairs,
        outputs,
        TOP=top,
        K=x.shape[1],
        BN=BN,
        BM=cut.size,
        BK=BK,
        EXPERTS=stack.shape[0],
        GATED=top > 0,
        LONE=cut.lone,
        num_warps=4,
        num_stages=3,
    )


def _segmented(x: torch.Tensor, stack: Packed, y: torch.Tensor, cut: Tiles, top: int) -> None:
    outputs, rows = y.shape[1], LONE_ROWS if cut.lone else ROWS
    packed_kernel.multiply_packed[(-(-outputs // (rows // 2 if top else rows)), cut.owner.numel())](
        x,
        stack.words,
        stack.scale,
        y,
        cut.owner,
        cut.pairs,
        TOP=top,
        N=outputs,
        K=x.shape[1],
        LINES=stack.words.shape[2],
        BN=rows,
        BM=cut.size,
        EXPERTS=stack.shape[0],
        GATED=top > 0,
        LONE=cut.lone,
        SEGMENTS=SEGMENTS,
        STAGES=_stages(x, rows, cut.size),
        PAIRED=not triton.knobs.runtime.interpret,
        num_warps=SEGMENTS,
    )


def _stages(x: torch.Tensor, rows: int, size: int) -> int:
    """3, two lines of a segment on their way, where three programs have room for that, else 2.

    Two are 68 KiB of 32 rows and of 8 pairs' features, of 16 pairs 100; `size`: pairs.
    """
    line = SEGMENTS * LINE * (rows * 9 // 16 + size * x.element_size())
    return 3 if 3 * 2 * line <= limits(x.device).shared else 2


def _walked(x: torch.Tensor, stack: Packed, y: torch.Tensor, cut: Tiles) -> None:
    outputs = y.shape[1]
    packed_kernel.walk_packed[(-(-outputs // (WALK * ROWS)), cut.owner.numel())](
        x,
        stack.words,
        stack.scale,
        y,
        cut.owner,
        cut.pairs,
        N=outputs,
        K=x.shape[1],
        BN=ROWS,
        BM=cut.size,
        EXPERTS=stack.shape[0],
        LONE=cut.lone,
        WALK=WALK,
        STAGES=3,
        PAIRED=not triton.knobs.runtime.interpret,
        num_warps=1,
    )

"""Which token goes to which program, and the launches of a mixture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ddtree.ops.experts import kernel
from ddtree.ops.experts.packed import LINE, Packed

# Floats: pairs, outputs, features a tile. Not tuned on a device.
BM, BN, BK = 16, 64, 64
# INT4: weights meet 8 columns of tokens an instruction, so a tile of 8 wastes least on few tokens;
# with many, unpacking is shared by more. A column's sum is the same in either.
PACKED_BM, MANY_BM = 8, 16
MANY = 8  # pairs an expert
WALKED = 192  # tiles above which a program walks further
LONE = 4  # tokens whose pairs are a tile each: hardly any two of them share an expert
BP = 8  # pairs that a program of `arrange` places: 2.8 us with 72 of them, 3.3 with 32
COUNTED = 256  # pairs that it counts at once
OUTPUTS = 32  # that a program of `combine` sums
MOST_TOKENS = 16  # of it


@dataclass(frozen=True)
class Segmented:
    """How `multiply_packed` is launched: one warp a segment. `segments` makes a sum's bits."""

    rows: int
    segments: int
    stages: int
    axis: int = 0  # of the grid, that tiles lie on


@dataclass(frozen=True)
class Walked:
    """How `walk_packed` is launched. None of it is seen in a sum."""

    rows: int
    walk: int
    warps: int
    stages: int
    axis: int = 0


@dataclass(frozen=True)
class Cuts:
    gated: Segmented
    many: Segmented  # of as many segments
    plain: Segmented  # matrices of several lines that are not gated
    plain_many: Segmented
    walked: Walked
    walked_many: Walked


# H200, a rank of 8 of Kimi-K2.6, uniform draws, us with 1, 9 and 33 tokens. `gated`: 12.6, 48 and
# 119 (69 and 81 % of a copy's pace at 9 and 33); one segment 22, 46 and 117, four 11, 65 and 175,
# and with tiles on the grid's first axis 13, 52 and 127. `down`: 6.7, 26 and 64 walked, else 7.9,
# 42 and 117; at 33 and 65 tokens a walk of 4 takes 62.7 and 92.1, of 14 61.9 and 88.5.
CUTS = Cuts(
    gated=Segmented(rows=32, segments=2, stages=3, axis=1),
    many=Segmented(rows=32, segments=2, stages=3, axis=1),
    plain=Segmented(rows=32, segments=1, stages=4),
    plain_many=Segmented(rows=32, segments=1, stages=3),
    walked=Walked(rows=32, walk=4, warps=2, stages=3, axis=1),
    walked_many=Walked(rows=32, walk=14, warps=2, stages=3, axis=1),
)


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
    few, many = (CUTS.gated, CUTS.many) if top else (CUTS.plain, CUTS.plain_many)
    by = many if cut.size == MANY_BM else few
    outputs = y.shape[1]
    programs = -(-outputs // (by.rows // 2 if top else by.rows))
    kernel.multiply_packed[_grid(cut, programs, by.axis)](
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
        BN=by.rows,
        BM=cut.size,
        EXPERTS=stack.shape[0],
        GATED=top > 0,
        LONE=cut.lone,
        AXIS=by.axis,
        SEGMENTS=by.segments,
        STAGES=by.stages,
        PAIRED=not triton.knobs.runtime.interpret,
        num_warps=by.segments,
    )


def _walked(x: torch.Tensor, stack: Packed, y: torch.Tensor, cut: Tiles) -> None:
    by = CUTS.walked_many if cut.owner.numel() > WALKED else CUTS.walked
    outputs = y.shape[1]
    kernel.walk_packed[_grid(cut, -(-outputs // (by.rows * by.walk)), by.axis)](
        x,
        stack.words,
        stack.scale,
        y,
        cut.owner,
        cut.pairs,
        N=outputs,
        K=x.shape[1],
        BN=by.rows,
        BM=cut.size,
        EXPERTS=stack.shape[0],
        LONE=cut.lone,
        AXIS=by.axis,
        WALK=by.walk,
        STAGES=by.stages,
        PAIRED=not triton.knobs.runtime.interpret,
        num_warps=by.warps,
    )


def _grid(cut: Tiles, programs: int, axis: int) -> tuple[int, int]:
    count = cut.owner.numel()
    return (programs, count) if axis else (count, programs)

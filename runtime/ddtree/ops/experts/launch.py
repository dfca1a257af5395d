"""Which token goes to which program, and the launches of a mixture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ddtree.ops.experts import kernel
from ddtree.ops.experts.packed import LINE, Packed

# None of these was tuned on a device yet.
BM, BN, BK = 16, 64, 64  # pairs, outputs, features a tile
# INT4: weights meet 8 columns of tokens an instruction, so a tile of 8 wastes least on few tokens;
# with many, unpacking is shared by more. A column's sum is the same in either.
PACKED_BM, MANY_BM = 8, 32
MANY = 8  # pairs an expert
# Two warps have a whole matrix instruction each, so that none unpacks what the other does.
PACKED_BN, PACKED_WARPS, STAGES = 32, 2, 4
BP = 32  # pairs, or tiles, that a program of `arrange` places
WIDE = 256  # outputs that a program of `combine` sums


@dataclass(frozen=True)
class Tiles:
    """Pairs (token, slot) sorted by expert and cut into tiles of one expert each.

    There are as many tiles as any routing could need; the surplus ones belong to expert E.
    """

    order: torch.Tensor  # [M K] int32, where each sorted pair came from
    owner: torch.Tensor  # [T] int32, expert of a tile
    begin: torch.Tensor  # [T] int32, first sorted pair
    end: torch.Tensor  # [T] int32, one past the last pair of this tile's expert
    size: int  # most pairs of a tile


def tiles(chosen: torch.Tensor, experts: int, size: int = BM) -> Tiles:
    """chosen [M, K] int64, contiguous; no shape depends on its values."""
    pairs = chosen.numel()
    count = min(pairs, experts + pairs // size)
    order, owner, begin, end = (
        torch.empty(size, dtype=torch.int32, device=chosen.device)
        for size in (pairs, count, count, count)
    )
    placers = -(-pairs // BP)
    kernel.arrange[(placers + -(-count // BP),)](
        chosen,
        order,
        owner,
        begin,
        end,
        pairs,
        count,
        placers,
        EXPERTS=experts,
        BE=1 << (experts - 1).bit_length(),
        BM=size,
        BP=BP,
        num_warps=4,
    )
    return Tiles(order, owner, begin, end, size)


def run(
    x: torch.Tensor,  # [M, H]
    stacks: tuple[torch.Tensor | Packed, torch.Tensor | Packed],
    chosen: torch.Tensor,  # [M, K] int64
    weights: torch.Tensor,  # [M, K] float32
    residual: torch.Tensor,  # [M, H]
) -> torch.Tensor:
    """[M, H] in x's dtype. Everything contiguous."""
    gate_up, down = stacks
    (m, hidden), k = x.shape, chosen.shape[1]
    cut = tiles(chosen, down.shape[0], _pairs(chosen.numel(), gate_up, down))
    held = torch.empty(m * k, down.shape[2], dtype=x.dtype, device=x.device)  # sorted
    part = torch.empty(m * k, hidden, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    _multiply(x, gate_up, held, cut, k, gated=True)
    _multiply(held, down, part, cut, k, gated=False)
    combine = kernel.combine[(m, -(-hidden // WIDE))]
    combine(part, weights, residual, out, hidden, TOP=k, BN=WIDE, num_warps=2)
    return out


def _pairs(count: int, *stacks: torch.Tensor | Packed) -> int:
    """Of a tile, which both products of a mixture share."""
    packed = [isinstance(stack, Packed) for stack in stacks]
    if not all(packed):
        return BM
    return MANY_BM if count > MANY * stacks[0].shape[0] else PACKED_BM


def _multiply(
    x: torch.Tensor,
    stack: torch.Tensor | Packed,
    y: torch.Tensor,
    cut: Tiles,
    top: int,
    *,
    gated: bool,
) -> None:
    """Every tile's rows of x by its expert's matrix [N or 2 N, K] into y."""
    outputs = y.shape[1]
    pairs = (cut.order, cut.owner, cut.begin, cut.end)
    fixed = {"TOP": top, "BM": cut.size, "EXPERTS": stack.shape[0], "GATED": gated}
    if isinstance(stack, Packed):
        rows = PACKED_BN // 2 if gated else PACKED_BN
        kernel.multiply_packed[(cut.owner.numel(), -(-outputs // rows))](
            x,
            stack.words,
            stack.scale,
            y,
            *pairs,
            N=outputs,
            K=x.shape[1],
            LINES=-(-stack.features // LINE),
            GROUPS=stack.scale.shape[2],
            BN=PACKED_BN,
            STAGES=STAGES,
            PAIRED=not triton.knobs.runtime.interpret,
            num_warps=PACKED_WARPS,
            **fixed,
        )
        return
    kernel.multiply[(cut.owner.numel(), -(-outputs // BN))](
        x,
        stack,
        y,
        *pairs,
        outputs,
        K=x.shape[1],
        BN=BN,
        BK=BK,
        num_warps=4,
        num_stages=3,
        **fixed,
    )

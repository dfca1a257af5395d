"""The states of a row in the order of positions, then its tail.

All weights are read first, so that the largest base is known and sums do not wait for each other.
"""

import triton
import triton.language as tl

from ddtree.ops.tree_attention.kernel import chunks_below, edge_of, power


@triton.jit
def summed(
    p_acc, p_ml, p_last, row, o_d, PARTS, H: tl.constexpr, D: tl.constexpr, BT: tl.constexpr,
    REACH: tl.constexpr, GRAIN: tl.constexpr, GROUP: tl.constexpr, NEAR: tl.constexpr,
    FAR: tl.constexpr, TURN: tl.constexpr, LONG: tl.constexpr, UNROLL: tl.constexpr,
    BP: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """Numbers o_d of the result of a row (token, head), float32.

    Chunks of NEAR tiles, below tile TURN, are groups or tiles of one; LONG: there may be others.
    UNROLL states are on their way at once, of which BP >= UNROLL has a power of two: all (ONCE), or
    whole groups.
    """
    one = tl.arange(0, 1)
    p_ml += row * PARTS * 2 + one  # [1]
    p_acc += row * PARTS * D + o_d
    edge = edge_of(tl.load(p_last + row // H), REACH, GRAIN)
    count = chunks_below((edge + BT - 1) // BT, NEAR, FAR, TURN)
    m_tail = tl.load(p_ml)  # [1]
    w_tail = tl.load(p_ml + 1)
    tail = tl.load(p_acc)  # as o_d
    top = m_tail
    o_p = tl.arange(0, BP)
    for base in range(0, BP if ONCE else count, BP):
        p_some = p_ml + (1 + base + o_p) * 2
        some = tl.load(p_some, mask=base + o_p < count, other=float("-inf"))
        top = tl.maximum(top, tl.max(some, 0))
    w = tl.zeros([1], tl.float32)
    acc = tl.zeros(o_d.shape, tl.float32)
    for base in range(0, UNROLL if ONCE else count, UNROLL):
        w_group = tl.zeros([1], tl.float32)
        group = tl.zeros(o_d.shape, tl.float32)
        for j in tl.static_range(UNROLL):
            part = base + j
            known = part + one < count
            m2 = tl.load(p_ml + (1 + part) * 2, mask=known, other=float("-inf"))
            w2 = tl.load(p_ml + (1 + part) * 2 + 1, mask=known, other=0.0)
            acc2 = tl.load(p_acc + (1 + part) * D, mask=part < count, other=0.0)
            b = power(m2 - top)
            w_group = tl.fma(w2, b, w_group)
            group = tl.fma(acc2, tl.broadcast_to(b, acc2.shape), group)
            if NEAR > 1 or j % GROUP == GROUP - 1:
                w += w_group
                acc += group
                w_group = tl.zeros([1], tl.float32)
                group = tl.zeros(o_d.shape, tl.float32)
            elif LONG:
                if part >= TURN:
                    w += w_group
                    acc += group
                    w_group = tl.zeros([1], tl.float32)
                    group = tl.zeros(o_d.shape, tl.float32)
        w += w_group
        acc += group
    b = power(m_tail - top)
    w = tl.fma(w_tail, b, w)
    return tl.fma(tail, tl.broadcast_to(b, tail.shape), acc) / w


@triton.jit(do_not_specialize=["PARTS"])
def finish(
    p_acc, p_ml, p_last, p_out, PARTS, H: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
    BT: tl.constexpr, REACH: tl.constexpr, GRAIN: tl.constexpr, GROUP: tl.constexpr,
    NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr, LONG: tl.constexpr,
    UNROLL: tl.constexpr, BP: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """BD numbers of the result of one row. Grid (B * N * H, D / BD)."""
    row = tl.program_id(0).to(tl.int64)
    o_d = tl.program_id(1) * BD + tl.arange(0, BD)
    result = summed(p_acc, p_ml, p_last, row, o_d, PARTS, H, D, BT, REACH, GRAIN, GROUP, NEAR, FAR,
                    TURN, LONG, UNROLL, BP, ONCE)  # fmt: skip
    tl.store(p_out + row * D + o_d, result.to(p_out.dtype.element_ty))

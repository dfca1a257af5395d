"""States of latent attention become a row's result: chunks in order, then the tail.

Where tokens are few, the matrix that makes a head's value of a result is in the same launch.
"""

import triton
import triton.language as tl

from ddtree.ops.latent_attention.kernel import border_of, merge
from ddtree.ops.tree_attention.kernel import chunks_below


@triton.jit
def merged(
    p_acc, p_ml, p_last, row, o_d, PARTS, H: tl.constexpr, R: tl.constexpr, BT: tl.constexpr,
    REACH: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr,
    WHOLE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Numbers o_d of the result of a row (token, head), float32."""
    first = row * PARTS
    last = tl.load(p_last + row // H)
    one = tl.arange(0, 1)
    tail_m = tl.load(p_ml + first * 2 + one)
    tail_w = tl.load(p_ml + first * 2 + 1 + one)
    tail = tl.load(p_acc + first * R + o_d)
    tiles = (border_of(last, REACH, BT) + BT - 1) // BT
    count = chunks_below(tiles, NEAR, FAR, TURN)
    if WHOLE:
        count = tl.minimum(count, 1)
    m = tl.full([1], float("-inf"), tl.float32)
    w = tl.zeros([1], tl.float32)
    acc = tl.zeros(o_d.shape, tl.float32)
    for base in range(0, count, UNROLL):
        for j in tl.static_range(UNROLL):
            i_part = base + j
            m_part = (i_part + one) < count
            cell = first + 1 + i_part
            m2 = tl.load(p_ml + cell * 2 + one, mask=m_part, other=float("-inf"))
            w2 = tl.load(p_ml + cell * 2 + 1 + one, mask=m_part, other=0.0)
            part = tl.load(p_acc + cell * R + o_d, mask=m_part, other=0.0)
            m, w, acc = merge(m, w, acc, m2, w2, part)
    m, w, acc = merge(m, w, acc, tail_m, tail_w, tail)
    return acc / w


@triton.jit
def finish(
    p_acc, p_ml, p_last, p_out, PARTS, H: tl.constexpr, R: tl.constexpr, BD: tl.constexpr,
    BT: tl.constexpr, REACH: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr,
    TURN: tl.constexpr, WHOLE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """BD numbers of a row's result. Grid (R / BD, B * N * H)."""
    row = tl.program_id(1).to(tl.int64)
    o_d = tl.program_id(0) * BD + tl.arange(0, BD)
    result = merged(p_acc, p_ml, p_last, row, o_d, PARTS, H, R, BT, REACH, NEAR, FAR, TURN, WHOLE,
                    UNROLL)  # fmt: skip
    tl.store(p_out + row * R + o_d, result.to(p_out.dtype.element_ty))


@triton.jit
def values(
    p_acc, p_ml, p_last, p_up, s_head, p_y, PARTS, H: tl.constexpr, R: tl.constexpr,
    V: tl.constexpr, S_V: tl.constexpr, BV: tl.constexpr, BT: tl.constexpr, REACH: tl.constexpr,
    NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr, WHOLE: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """BV numbers of a head's value: the result of a row by the head's matrix [V, R].

    Every program of a row merges it all. The result is one column of a product, so that it is
    summed as `head_linear` sums it among others. Grid (tiles of V, B * N * H).
    """
    row = tl.program_id(1).to(tl.int64)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    o_r = tl.arange(0, R)
    column = tl.arange(0, 8)[None, :]
    p_rows = p_up + row % H * s_head + o_v[:, None] * S_V + o_r[None, :]
    up = tl.load(p_rows, mask=(o_v < V)[:, None], other=0.0)
    result = merged(p_acc, p_ml, p_last, row, o_r, PARTS, H, R, BT, REACH, NEAR, FAR, TURN, WHOLE,
                    UNROLL)  # fmt: skip
    x = tl.where(column == 0, result.to(up.dtype)[:, None], tl.zeros([R, 8], up.dtype))
    total = tl.dot(up, x, input_precision="ieee")
    p_out = p_y + row * V + o_v[:, None] + column
    tl.store(p_out, total.to(p_y.dtype.element_ty), mask=(o_v < V)[:, None] & (column == 0))

"""A row's states become its result, and the matrix of its head makes a value of that."""

import triton
import triton.language as tl

from ddtree.ops.state_sum.kernel import summed


@triton.jit(do_not_specialize=["PARTS"])
def values(
    p_acc, p_ml, p_last, p_up, s_head, p_y, PARTS, H: tl.constexpr, D: tl.constexpr,
    V: tl.constexpr, S_V: tl.constexpr, BV: tl.constexpr, BT: tl.constexpr, REACH: tl.constexpr,
    GRAIN: tl.constexpr, GROUP: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr,
    TURN: tl.constexpr, LONG: tl.constexpr, UNROLL: tl.constexpr, BP: tl.constexpr,
    ONCE: tl.constexpr,
):  # fmt: skip
    """BV numbers of a head's value: the result of a row by the head's matrix [V, D].

    Every program of a row sums it all. The result is one column of a product, so that it is
    summed as `head_linear` sums it among others. Grid (tiles of V, B * N * H).
    """
    row = tl.program_id(1).to(tl.int64)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    o_d = tl.arange(0, D)
    column = tl.arange(0, 8)[None, :]
    p_rows = p_up + row % H * s_head + o_v[:, None] * S_V + o_d[None, :]
    up = tl.load(p_rows, mask=(o_v < V)[:, None], other=0.0)
    result = summed(p_acc, p_ml, p_last, row, o_d, PARTS, H, D, BT, REACH, GRAIN, GROUP, NEAR, FAR,
                    TURN, LONG, UNROLL, BP, ONCE)  # fmt: skip
    x = tl.where(column == 0, result.to(up.dtype)[:, None], tl.zeros([D, 8], up.dtype))
    total = tl.dot(up, x, input_precision="ieee")
    p_out = p_y + row * V + o_v[:, None] + column
    tl.store(p_out, total.to(p_y.dtype.element_ty), mask=(o_v < V)[:, None] & (column == 0))

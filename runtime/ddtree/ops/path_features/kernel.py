"""One layer's row of one accepted node. A kernel takes no list, so layers have names."""

import triton
import triton.language as tl


@triton.jit
def copy(p_x, p_y, H: tl.constexpr, BH: tl.constexpr):
    o_h = tl.arange(0, BH)
    tl.store(p_y + o_h, tl.load(p_x + o_h, mask=o_h < H, other=0.0), mask=o_h < H)


@triton.jit
def gather(
    p_0, p_1, p_2, p_3, p_4, p_5, p_6, p_7, p_path, p_out, first, N, T, COUNT: tl.constexpr,
    H: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """Grid (B * T, layers here); out [B * T, COUNT, H], of which these are from `first` on."""
    cell = tl.program_id(0).to(tl.int64)
    i_layer = tl.program_id(1)
    at = ((cell // T) * N + tl.load(p_path + cell)) * H
    p_row = p_out + (cell * COUNT + first + i_layer) * H
    if i_layer == 0:
        copy(p_0 + at, p_row, H, BH)
    if i_layer == 1:
        copy(p_1 + at, p_row, H, BH)
    if i_layer == 2:
        copy(p_2 + at, p_row, H, BH)
    if i_layer == 3:
        copy(p_3 + at, p_row, H, BH)
    if i_layer == 4:
        copy(p_4 + at, p_row, H, BH)
    if i_layer == 5:
        copy(p_5 + at, p_row, H, BH)
    if i_layer == 6:
        copy(p_6 + at, p_row, H, BH)
    if i_layer == 7:
        copy(p_7 + at, p_row, H, BH)

"""A skinny matrix product a head. Weights x tokens; K is walked from 0 in one order."""

import triton
import triton.language as tl


@triton.jit
def head_tile(
    p_x, s_x, p_w, p_y, s_y, M, i_n, i_m, N: tl.constexpr, K: tl.constexpr, S_N: tl.constexpr,
    S_K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One [BN, BM] tile of the head at whose first numbers the pointers are."""
    o_n = i_n * BN + tl.arange(0, BN)
    o_m = (i_m * BM + tl.arange(0, BM)).to(tl.int64)
    m_n = o_n < N
    m_m = o_m < M
    total = tl.zeros([BN, BM], tl.float32)
    for i_k in range(0, K, BK):
        o_k = i_k + tl.arange(0, BK)
        m_k = o_k < K
        p_rows = p_w + o_n[:, None] * S_N + o_k[None, :] * S_K
        w = tl.load(p_rows, mask=m_n[:, None] & m_k[None, :], other=0.0)
        p_tokens = p_x + o_m[:, None] * s_x + o_k[None, :]
        x = tl.load(p_tokens, mask=m_m[:, None] & m_k[None, :], other=0.0)
        total = tl.dot(w, tl.trans(x), total, input_precision="ieee")
    p_out = p_y + o_m[None, :] * s_y + o_n[:, None]
    tl.store(p_out, total.to(p_y.dtype.element_ty), mask=m_n[:, None] & m_m[None, :])


@triton.jit
def head_linear(
    p_x, s_x, s_x_head, p_w, s_w_head, p_y, s_y, s_y_head, M, N: tl.constexpr, K: tl.constexpr,
    S_N: tl.constexpr, S_K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Grid (tiles of N, tiles of M, heads)."""
    i_h = tl.program_id(2).to(tl.int64)
    head_tile(
        p_x + i_h * s_x_head, s_x, p_w + i_h * s_w_head, p_y + i_h * s_y_head, s_y, M,
        tl.program_id(0), tl.program_id(1), N, K, S_N, S_K, BN, BM, BK,
    )  # fmt: skip

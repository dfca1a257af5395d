"""The products of a mixture, and the sum of a token's experts.

Weights x tokens, as in ops/linear: a program multiplies BN weight rows of one expert by BM of its
tokens. K is walked from 0 in one order and BM never changes, so a token's sum does not know who
sits in the other columns.
"""

import triton
import triton.language as tl


@triton.jit
def multiply(
    p_x, p_w, p_y, p_order, p_owner, p_begin, p_end, N, TOP: tl.constexpr, K: tl.constexpr,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, EXPERTS: tl.constexpr,
    GATED: tl.constexpr,
):  # fmt: skip
    """One tile of pairs (token, expert), sorted by expert, by BN of N outputs.

    GATED reads the tokens' own rows of x and writes silu(gate) * up at the sorted place; else rows
    of x are sorted pairs, and y is written where the pair came from.
    """
    i_tile = tl.program_id(0)
    expert = tl.load(p_owner + i_tile)
    if expert < EXPERTS:
        o_pair = tl.load(p_begin + i_tile) + tl.arange(0, BM)
        m_pair = o_pair < tl.load(p_end + i_tile)
        origin = tl.load(p_order + o_pair, mask=m_pair, other=0)
        o_x = origin // TOP if GATED else o_pair
        o_y = o_pair if GATED else origin
        o_n = tl.program_id(1) * BN + tl.arange(0, BN)
        m_n = o_n < N
        PIECES: tl.constexpr = 2 if GATED else 1
        p_w += expert.to(tl.int64) * (PIECES * N) * K
        total = tl.zeros([BN, BM], tl.float32)
        up = tl.zeros([BN, BM], tl.float32)
        for i_k in range(0, K, BK):
            o_k = i_k + tl.arange(0, BK)
            m_k = o_k < K
            m_w = m_n[:, None] & m_k[None, :]
            p_rows = p_x + o_x[:, None].to(tl.int64) * K + o_k[None, :]
            x = tl.trans(tl.load(p_rows, mask=m_pair[:, None] & m_k[None, :], other=0.0))
            p_gate = p_w + o_n[:, None].to(tl.int64) * K + o_k[None, :]
            w = tl.load(p_gate, mask=m_w, other=0.0)
            total = tl.dot(w, x, total, input_precision="ieee")
            if GATED:
                w_up = tl.load(p_gate + N * K, mask=m_w, other=0.0)
                up = tl.dot(w_up, x, up, input_precision="ieee")
        if GATED:
            total = total / (1.0 + tl.exp(-total)) * up
        p_out = p_y + o_y[None, :].to(tl.int64) * N + o_n[:, None]
        tl.store(p_out, total.to(p_y.dtype.element_ty), mask=m_n[:, None] & m_pair[None, :])


@triton.jit
def combine(p_part, p_weight, p_residual, p_y, N, TOP: tl.constexpr, BN: tl.constexpr):
    """y = residual + sum of a token's parts, best expert first, times their weights."""
    i_m = tl.program_id(0).to(tl.int64)
    o_n = tl.program_id(1) * BN + tl.arange(0, BN)
    m_n = o_n < N
    total = tl.load(p_residual + i_m * N + o_n, mask=m_n, other=0.0).to(tl.float32)
    for i_k in tl.static_range(TOP):
        part = tl.load(p_part + (i_m * TOP + i_k) * N + o_n, mask=m_n, other=0.0)
        total += tl.load(p_weight + i_m * TOP + i_k) * part
    tl.store(p_y + i_m * N + o_n, total.to(p_y.dtype.element_ty), mask=m_n)

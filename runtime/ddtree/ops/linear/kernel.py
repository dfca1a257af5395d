"""A skinny matrix product whose rows do not know how many they are.

Weights x tokens: 64 or more weight rows fill the matrix unit whatever the tokens are. K is cut
into SPLITS parts that depend on the weight alone; each part is summed from zero and the parts are
added in order, by the program that comes last or, when tokens are many, by one program (WHOLE).
"""

import triton
import triton.language as tl


@triton.jit
def multiply(
    acc, p_x, p_w, o_m, m_m, o_n, m_n, begin, K: tl.constexpr, BK: tl.constexpr,
    STEPS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """acc [BN, BM] + W[o_n, begin : begin + STEPS * BK] x[o_m, same]^T."""
    for i_k in range(0, STEPS):
        o_k = begin + i_k * BK + tl.arange(0, BK)
        p_rows = p_w + o_n[:, None].to(tl.int64) * K + o_k[None, :]
        p_tokens = p_x + o_m[:, None].to(tl.int64) * K + o_k[None, :]
        if EVEN:
            w = tl.load(p_rows, mask=m_n[:, None], other=0.0)
            x = tl.load(p_tokens, mask=m_m[:, None], other=0.0)
        else:
            w = tl.load(p_rows, mask=m_n[:, None] & (o_k < K)[None, :], other=0.0)
            x = tl.load(p_tokens, mask=m_m[:, None] & (o_k < K)[None, :], other=0.0)
        acc = tl.dot(w, tl.trans(x), acc, input_precision="ieee")
    return acc


@triton.jit
def multiply_pair(
    gate, up, p_x, p_w, o_m, m_m, o_n, m_n, N, begin, K: tl.constexpr, BK: tl.constexpr,
    STEPS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """`multiply` by weight rows o_n and N + o_n, with one load of the tokens."""
    for i_k in range(0, STEPS):
        o_k = begin + i_k * BK + tl.arange(0, BK)
        p_gate = p_w + o_n[:, None].to(tl.int64) * K + o_k[None, :]
        p_up = p_w + (o_n + N)[:, None].to(tl.int64) * K + o_k[None, :]
        p_tokens = p_x + o_m[:, None].to(tl.int64) * K + o_k[None, :]
        m_w = m_n[:, None] if EVEN else m_n[:, None] & (o_k < K)[None, :]
        m_x = m_m[:, None] if EVEN else m_m[:, None] & (o_k < K)[None, :]
        x = tl.trans(tl.load(p_tokens, mask=m_x, other=0.0))
        gate = tl.dot(tl.load(p_gate, mask=m_w, other=0.0), x, gate, input_precision="ieee")
        up = tl.dot(tl.load(p_up, mask=m_w, other=0.0), x, up, input_precision="ieee")
    return gate, up


@triton.jit
def emit(total, up, p_y, p_r, o_n, o_m, mask, N, MODE: tl.constexpr):
    """Write y [tokens, N] from [BN, BM] sums. MODE 0 plain, 1 plus residual, 2 silu(total) * up."""
    o_y = o_m[None, :].to(tl.int64) * N + o_n[:, None]
    if MODE == 1:
        total += tl.load(p_r + o_y, mask=mask, other=0.0).to(tl.float32)
    if MODE == 2:
        total = total / (1.0 + tl.exp(-total)) * up
    tl.store(p_y + o_y, total.to(p_y.dtype.element_ty), mask=mask)


@triton.jit
def linear(
    p_x, p_w, p_y, p_r, p_part, p_count, M, N, MB, K: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, STEPS: tl.constexpr, SPLITS: tl.constexpr,
    EVEN: tl.constexpr, WHOLE: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """One [BN, BM] tile, or one split of it. Grid (tiles, SPLITS or 1); counts are left at 0."""
    i_tile = tl.program_id(0)
    o_n = (i_tile // MB) * BN + tl.arange(0, BN)
    o_m = (i_tile % MB) * BM + tl.arange(0, BM)
    m_n = o_n < N
    m_m = o_m < M
    mask = m_n[:, None] & m_m[None, :]
    SPAN: tl.constexpr = STEPS * BK
    zero = tl.zeros([BN, BM], tl.float32)
    if WHOLE or SPLITS == 1:
        total, total_up = zero, zero
        for i_split in range(0, SPLITS):
            if MODE == 2:
                part, up = multiply_pair(
                    zero, zero, p_x, p_w, o_m, m_m, o_n, m_n, N, i_split * SPAN, K, BK, STEPS, EVEN
                )
                total_up += up
            else:
                part = multiply(
                    zero, p_x, p_w, o_m, m_m, o_n, m_n, i_split * SPAN, K, BK, STEPS, EVEN
                )
            total += part
        emit(total, total_up, p_y, p_r, o_n, o_m, mask, N, MODE)
    else:
        i_split = tl.program_id(1)
        PIECES: tl.constexpr = 2 if MODE == 2 else 1
        o_tile = tl.arange(0, BN)[:, None] * BM + tl.arange(0, BM)[None, :]
        p_tile = p_part + i_tile.to(tl.int64) * (SPLITS * PIECES * BN * BM) + o_tile
        p_mine = p_tile + i_split * (PIECES * BN * BM)
        if MODE == 2:
            part, up = multiply_pair(
                zero, zero, p_x, p_w, o_m, m_m, o_n, m_n, N, i_split * SPAN, K, BK, STEPS, EVEN
            )
            tl.store(p_mine + BN * BM, up)
        else:
            part = multiply(zero, p_x, p_w, o_m, m_m, o_n, m_n, i_split * SPAN, K, BK, STEPS, EVEN)
        tl.store(p_mine, part)
        tl.debug_barrier()  # every thread's part is written before this program counts as arrived
        if tl.atomic_add(p_count + i_tile, 1, sem="acq_rel") == SPLITS - 1:
            total, total_up = zero, zero
            for i_part in tl.static_range(SPLITS):
                p_other = p_tile + i_part * (PIECES * BN * BM)
                total += tl.load(p_other, cache_modifier=".cg")
                if MODE == 2:
                    total_up += tl.load(p_other + BN * BM, cache_modifier=".cg")
            emit(total, total_up, p_y, p_r, o_n, o_m, mask, N, MODE)
            tl.store(p_count + i_tile, 0)

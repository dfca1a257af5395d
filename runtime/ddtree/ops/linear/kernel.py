"""A skinny matrix product whose rows do not know how many they are.

Weights x tokens: 64 or more weight rows fill the matrix unit whatever the tokens are. K is cut
into SPLITS spans that depend on the weight alone; each span is summed from zero and the spans are
added in order, by the program that comes last or, when tokens are many, by one program (WHOLE).
A tile has BM tokens and, where BM + 16 fit better than the next power of two, BE = 16 extra ones.
"""

import triton
import triton.language as tl

from ddtree.ops.overlap.kernel import fetch_ahead, start


@triton.jit
def load_block(p_base, rows, m_rows, o_k, K: tl.constexpr, EVEN: tl.constexpr):
    """[rows, BK] of a row-major matrix with K columns."""
    pointer = p_base + rows[:, None].to(tl.int64) * K + o_k[None, :]
    if EVEN:
        return tl.load(pointer, mask=m_rows[:, None], other=0.0)
    return tl.load(pointer, mask=m_rows[:, None] & (o_k < K)[None, :], other=0.0)


@triton.jit
def span_sums(
    p_x, p_w, M, N, i_n, i_m, begin, K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    BE: tl.constexpr, BK: tl.constexpr, STEPS: tl.constexpr, EVEN: tl.constexpr,
    PAIR: tl.constexpr,
):  # fmt: skip
    """W[rows, span] x[tokens, span]^T from zero: of rows and tokens, extra tokens, and with PAIR
    the same of weight rows N further on. What is not asked for is never computed."""
    o_n = i_n * BN + tl.arange(0, BN)
    o_m = i_m * (BM + BE) + tl.arange(0, BM)
    o_e = i_m * (BM + BE) + BM + tl.arange(0, 16)
    sums = tl.zeros([BN, BM], tl.float32)
    extra = tl.zeros([BN, 16], tl.float32)
    sums_up = tl.zeros([BN, BM], tl.float32)
    extra_up = tl.zeros([BN, 16], tl.float32)
    for i_k in range(0, STEPS):
        o_k = begin + i_k * BK + tl.arange(0, BK)
        w = load_block(p_w, o_n, o_n < N, o_k, K, EVEN)
        x = tl.trans(load_block(p_x, o_m, o_m < M, o_k, K, EVEN))
        sums = tl.dot(w, x, sums, input_precision="ieee")
        if BE > 0:
            e = tl.trans(load_block(p_x, o_e, o_e < M, o_k, K, EVEN))
            extra = tl.dot(w, e, extra, input_precision="ieee")
        if PAIR:
            up = load_block(p_w, o_n + N, o_n < N, o_k, K, EVEN)
            sums_up = tl.dot(up, x, sums_up, input_precision="ieee")
            if BE > 0:
                extra_up = tl.dot(up, e, extra_up, input_precision="ieee")
    return sums, extra, sums_up, extra_up


@triton.jit
def emit(total, up, p_y, p_r, o_n, o_m, M, N, MODE: tl.constexpr):
    """Write y [tokens, N] from [BN, BM] sums. MODE 0 plain, 1 plus residual, 2 silu(total) * up."""
    mask = (o_n < N)[:, None] & (o_m < M)[None, :]
    o_y = o_m[None, :].to(tl.int64) * N + o_n[:, None]
    if MODE == 1:
        total += tl.load(p_r + o_y, mask=mask, other=0.0).to(tl.float32)
    if MODE == 2:
        total = total / (1.0 + tl.exp(-total)) * up
    tl.store(p_y + o_y, total.to(p_y.dtype.element_ty), mask=mask)


@triton.jit
def ahead(
    p_w, N, i_n, begin, K: tl.constexpr, BN: tl.constexpr, SPAN: tl.constexpr,
    LINES: tl.constexpr, PAIR: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Fetch the first LINES cache lines (64 weights) of this span, while earlier kernels run."""
    o_n = i_n * BN + tl.arange(0, BN)
    o_l = tl.arange(0, LINES) * 64
    column = begin + o_l
    mask = (o_n < N)[:, None] & ((o_l < SPAN) & (column < K))[None, :]
    pointer = p_w + o_n[:, None].to(tl.int64) * K + column[None, :]
    fetch_ahead(pointer, mask, OVERLAP)
    if PAIR:
        fetch_ahead(p_w + (o_n + N)[:, None].to(tl.int64) * K + column[None, :], mask, OVERLAP)


@triton.jit
def linear(
    p_x, p_w, p_y, p_r, p_part, p_count, M, N, MB, K: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, BE: tl.constexpr, BK: tl.constexpr, SPAN: tl.constexpr, SPLITS: tl.constexpr,
    EVEN: tl.constexpr, WHOLE: tl.constexpr, MODE: tl.constexpr, LINES: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """One [BN, BM + BE] tile, or one span of it. Grid (tiles, SPLITS or 1); counts stay 0."""
    i_tile = tl.program_id(0)
    i_n = i_tile // MB
    i_m = i_tile % MB
    o_n = i_n * BN + tl.arange(0, BN)
    o_m = i_m * (BM + BE) + tl.arange(0, BM)
    o_e = i_m * (BM + BE) + BM + tl.arange(0, 16)
    PAIR: tl.constexpr = MODE == 2
    STEPS: tl.constexpr = SPAN // BK
    i_split = 0 if WHOLE or SPLITS == 1 else tl.program_id(1)
    if OVERLAP:
        ahead(p_w, N, i_n, i_split * SPAN, K, BN, SPAN, LINES, PAIR, OVERLAP)
    start(OVERLAP)
    if WHOLE or SPLITS == 1:
        a = tl.zeros([BN, BM], tl.float32)
        b = tl.zeros([BN, 16], tl.float32)
        c = tl.zeros([BN, BM], tl.float32)
        d = tl.zeros([BN, 16], tl.float32)
        for i_part in range(0, SPLITS):
            a1, b1, c1, d1 = span_sums(
                p_x, p_w, M, N, i_n, i_m, i_part * SPAN, K, BN, BM, BE, BK, STEPS, EVEN, PAIR
            )
            a += a1
            b += b1
            c += c1
            d += d1
        emit(a, c, p_y, p_r, o_n, o_m, M, N, MODE)
        if BE > 0:
            emit(b, d, p_y, p_r, o_n, o_e, M, N, MODE)
    else:
        PIECES: tl.constexpr = 2 if PAIR else 1
        SIZE: tl.constexpr = BN * (BM + BE)
        o_tile = tl.arange(0, BN)[:, None] * BM + tl.arange(0, BM)[None, :]
        o_extra = BN * BM + tl.arange(0, BN)[:, None] * 16 + tl.arange(0, 16)[None, :]
        p_tile = p_part + i_tile.to(tl.int64) * (SPLITS * PIECES * SIZE)
        p_mine = p_tile + i_split * (PIECES * SIZE)
        a, b, c, d = span_sums(
            p_x, p_w, M, N, i_n, i_m, i_split * SPAN, K, BN, BM, BE, BK, STEPS, EVEN, PAIR
        )
        tl.store(p_mine + o_tile, a)
        if BE > 0:
            tl.store(p_mine + o_extra, b)
        if PAIR:
            tl.store(p_mine + SIZE + o_tile, c)
            if BE > 0:
                tl.store(p_mine + SIZE + o_extra, d)
        tl.debug_barrier()  # every thread's part is written before this program counts as arrived
        if tl.atomic_add(p_count + i_tile, 1, sem="acq_rel") == SPLITS - 1:
            gather(p_tile, o_tile, p_y, p_r, o_n, o_m, M, N, SIZE, SPLITS, PIECES, MODE)
            if BE > 0:
                gather(p_tile, o_extra, p_y, p_r, o_n, o_e, M, N, SIZE, SPLITS, PIECES, MODE)
            tl.store(p_count + i_tile, 0)


@triton.jit
def gather(
    p_tile, o_tile, p_y, p_r, o_n, o_m, M, N, SIZE: tl.constexpr, SPLITS: tl.constexpr,
    PIECES: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """Add the spans of one tile in order and emit it."""
    total = tl.load(p_tile + o_tile, cache_modifier=".cg") + 0.0
    up = total
    if PIECES == 2:
        up = tl.load(p_tile + SIZE + o_tile, cache_modifier=".cg") + 0.0
    for i_part in tl.static_range(1, SPLITS):
        p_other = p_tile + i_part * (PIECES * SIZE)
        total += tl.load(p_other + o_tile, cache_modifier=".cg")
        if PIECES == 2:
            up += tl.load(p_other + SIZE + o_tile, cache_modifier=".cg")
    emit(total, up, p_y, p_r, o_n, o_m, M, N, MODE)

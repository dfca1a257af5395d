"""A skinny matrix product whose rows do not know how many they are.

Weights x tokens: 64 or more weight rows fill the matrix unit whatever the tokens are. One tile of
weights meets two tiles of tokens, BM and BESIDE wide, so that 65 tokens are not two times 64.
K is cut into SPLITS of PARTS that depend on the weight alone. Each part is summed from zero and
parts are added in order: in a program one after another or side by side (ABREAST, a warp each).
The sums of splits are added in order too, by the program that comes last or, when tokens are many,
by one that walks them all (WHOLE).

A norm between two products has no launch. The one before it (BLOCK) writes h times the norm's
weight and sums of h^2, the one behind it (SUMS) divides what it made of that by their root.
"""

import triton
import triton.language as tl

from ddtree.ops.half_norm.kernel import begin_norm, end_norm


@triton.jit
def load_tokens(p_x, o_m, o_k, M, K: tl.constexpr, EVEN: tl.constexpr):
    """x [BK, BM], zeros where there is none."""
    mask = (o_m < M)[:, None] if EVEN else (o_m < M)[:, None] & (o_k < K)[None, :]
    p_tokens = p_x + o_m[:, None].to(tl.int64) * K + o_k[None, :]
    return tl.trans(tl.load(p_tokens, mask=mask, other=0.0))


@triton.jit
def multiply(
    p_x, p_w, o_row, o_a, o_b, M, begin, K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    BESIDE: tl.constexpr, BK: tl.constexpr, STEPS: tl.constexpr, PARTS: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    """PARTS parts of W[o_row, begin : + STEPS * BK] x[o_a and o_b, same]^T, each from zero, added.

    [BN, BM] and [BN, BESIDE or 1]. One loop, so that loads do not stop where a part does.
    """
    WIDE: tl.constexpr = BESIDE if BESIDE > 0 else 1
    a = tl.zeros([BN, BM], tl.float32)
    b = tl.zeros([BN, WIDE], tl.float32)
    sum_a = tl.zeros([BN, BM], tl.float32)
    sum_b = tl.zeros([BN, WIDE], tl.float32)
    for i_k in range(0, STEPS * PARTS):
        o_k = begin + i_k * BK + tl.arange(0, BK)
        p_rows = p_w + o_row[:, None].to(tl.int64) * K + o_k[None, :]
        w = tl.load(p_rows) if EVEN else tl.load(p_rows, mask=(o_k < K)[None, :], other=0.0)
        a = tl.dot(w, load_tokens(p_x, o_a, o_k, M, K, EVEN), a, input_precision="ieee")
        if BESIDE > 0:
            b = tl.dot(w, load_tokens(p_x, o_b, o_k, M, K, EVEN), b, input_precision="ieee")
        if PARTS > 1:
            if i_k % STEPS == STEPS - 1:
                sum_a += a
                a = tl.zeros([BN, BM], tl.float32)
                if BESIDE > 0:
                    sum_b += b
                    b = tl.zeros([BN, WIDE], tl.float32)
    if PARTS > 1:
        a = sum_a
        b = sum_b
    return a, b


@triton.jit
def abreast(
    p_x, p_w, o_row, o_m, M, begin, K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    BK: tl.constexpr, STEPS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Four parts of STEPS * BK at once, all their loads under way together: their sum [BN, BM]."""
    acc = tl.zeros([4, BN, BM], tl.float32)
    for i_k in range(0, STEPS):
        o_k = tl.arange(0, 4)[:, None] * (STEPS * BK) + i_k * BK + tl.arange(0, BK)[None, :] + begin
        p_rows = p_w + o_row[None, :, None].to(tl.int64) * K + o_k[:, None, :]
        p_tokens = p_x + o_m[None, :, None].to(tl.int64) * K + o_k[:, None, :]
        m_x = (o_m < M)[None, :, None]
        if EVEN:
            w = tl.load(p_rows)
        else:
            m_x = m_x & (o_k < K)[:, None, :]
            w = tl.load(p_rows, mask=(o_k < K)[:, None, :], other=0.0)
        x = tl.permute(tl.load(p_tokens, mask=m_x, other=0.0), (0, 2, 1))
        acc = tl.dot(w, x, acc, input_precision="ieee")
    even, odd = tl.split(tl.reshape(tl.permute(acc, (1, 2, 0)), [BN, BM, 2, 2]))
    p0, p2 = tl.split(even)
    p1, p3 = tl.split(odd)
    return p0 + p1 + p2 + p3


@triton.jit
def parts(
    p_x, p_w, o_row, o_a, o_b, M, begin, K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    BESIDE: tl.constexpr, BK: tl.constexpr, STEPS: tl.constexpr, PARTS: tl.constexpr,
    EVEN: tl.constexpr, ABREAST: tl.constexpr,
):  # fmt: skip
    """PARTS parts of STEPS * BK, each summed from zero, added in order: one split."""
    if ABREAST:
        tl.static_assert(PARTS == 4 and BESIDE == 0)
        a = abreast(p_x, p_w, o_row, o_a, M, begin, K, BN, BM, BK, STEPS, EVEN)
        b = tl.zeros([BN, 1], tl.float32)
    else:
        a, b = multiply(p_x, p_w, o_row, o_a, o_b, M, begin, K, BN, BM, BESIDE, BK, STEPS, PARTS,
                        EVEN)  # fmt: skip
    return a, b


@triton.jit
def needed(
    p_r, p_sums, p_norm, first, o_m, M, N, BN: tl.constexpr, BM: tl.constexpr, MODE: tl.constexpr,
    SUMS: tl.constexpr, HALVINGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What a tile needs that waits for no product: residuals [BN, BM], sums of squares
    [1, 2^HALVINGS, BM] and the next norm's weight [BN]; zeros where there is none.
    """
    o_n = first + tl.arange(0, BN)
    residual = tl.zeros([1, 1], tl.float32)
    sums = tl.zeros([1, 1, 1], tl.float32)
    weight = tl.zeros([1], tl.float32)
    if MODE == 1:
        mask = (o_n < N)[:, None] & (o_m < M)[None, :]
        p_own = p_r + o_m[None, :].to(tl.int64) * N + o_n[:, None]
        residual = tl.load(p_own, mask=mask, other=0.0)
    if SUMS > 0:
        o_s = tl.arange(0, 1 << HALVINGS)[None, :, None]
        p_token = p_sums + o_m[None, None, :].to(tl.int64) * SUMS
        sums = tl.load(p_token + o_s, mask=(o_s < SUMS) & (o_m < M)[None, None, :], other=0.0)
    if BLOCK > 0:
        weight = tl.load(p_norm + o_n, mask=o_n < N, other=0.0)
    return residual, sums, weight


@triton.jit
def ahead(
    p_r, p_sums, p_norm, first, o_a, o_b, M, N, BN: tl.constexpr, BM: tl.constexpr,
    BESIDE: tl.constexpr, MODE: tl.constexpr, SUMS: tl.constexpr, HALVINGS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """What is `needed` for both tiles of tokens."""
    a = needed(p_r, p_sums, p_norm, first, o_a, M, N, BN, BM, MODE, SUMS, HALVINGS, BLOCK)
    b = a
    if BESIDE > 0:
        b = needed(p_r, p_sums, p_norm, first, o_b, M, N, BN, BESIDE, MODE, SUMS, HALVINGS, BLOCK)
    return a, b


@triton.jit
def emit(
    total, needs, p_y, p_half, p_into, first, o_m, M, N, eps, K: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, MODE: tl.constexpr, SUMS: tl.constexpr, HALVINGS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write y [tokens, N] from [BN, BM] sums. MODE 0 plain, 1 plus residual, 2 silu(gate) * up."""
    residual, sums, weight = needs
    o_n = first + tl.arange(0, BN // 2 if MODE == 2 else BN)
    o_y = o_m[None, :].to(tl.int64) * N + o_n[:, None]
    mask = (o_n < N)[:, None] & (o_m < M)[None, :]
    if SUMS > 0:
        total = end_norm(total, sums, eps, K, BM, HALVINGS)
    if MODE == 1:
        total += residual.to(tl.float32)
    if MODE == 2:
        pairs = tl.permute(tl.reshape(total, [BN // 16, 2, 8, BM]), (0, 2, 3, 1))
        gate, up = tl.split(pairs)
        total = tl.reshape(gate / (1.0 + tl.exp(-gate)) * up, [BN // 2, BM])
    y = total.to(p_y.dtype.element_ty)
    tl.store(p_y + o_y, y, mask=mask)
    if BLOCK > 0:
        begin_norm(y, weight, p_half, p_into, first, o_m, o_y, mask, M, N, BN, BM, BLOCK)


@triton.jit
def gather_parts(
    p_tile, o_part, BN: tl.constexpr, BM: tl.constexpr, SIZE: tl.constexpr, SPLITS: tl.constexpr
):  # fmt: skip
    """The parts of a tile, added in order."""
    total = tl.zeros([BN, BM], tl.float32)
    for i_part in tl.static_range(SPLITS):
        total += tl.load(p_tile + i_part * SIZE + o_part, cache_modifier=".cg")
    return total


@triton.jit
def tile(
    i_tile, p_x, p_w, p_y, p_r, p_sums, p_norm, p_half, p_into, p_part, p_count, M, N, MB, eps,
    K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BESIDE: tl.constexpr, BK: tl.constexpr,
    STEPS: tl.constexpr, PARTS: tl.constexpr, SPLITS: tl.constexpr, EVEN: tl.constexpr,
    ABREAST: tl.constexpr, WHOLE: tl.constexpr, MODE: tl.constexpr, SUMS: tl.constexpr,
    HALVINGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One [BN, BM + BESIDE] tile, or one split of it; parts and counts are this tile's own.

    MODE 2: a tile is 8 rows of gate, the 8 of up, and so on: what one thread has of both.
    """
    i_n = i_tile // MB
    o_i = tl.arange(0, BN)
    if MODE == 2:
        first = i_n * (BN // 2)
        o_row = tl.minimum(first + o_i // 16 * 8 + o_i % 8, N - 1) + o_i // 8 % 2 * N
    else:
        first = i_n * BN
        o_row = tl.minimum(first + o_i, N - 1)  # past the end the last row is read, not written
    WIDE: tl.constexpr = BESIDE if BESIDE > 0 else 1
    o_a = (i_tile % MB) * (BM + BESIDE) + tl.arange(0, BM)
    o_b = (i_tile % MB) * (BM + BESIDE) + BM + tl.arange(0, WIDE)
    SPAN: tl.constexpr = STEPS * BK * PARTS
    if WHOLE or SPLITS == 1:
        if not WHOLE:  # few tokens: on the way while K is walked
            with_a, with_b = ahead(p_r, p_sums, p_norm, first, o_a, o_b, M, N, BN, BM, BESIDE, MODE,
                                   SUMS, HALVINGS, BLOCK)  # fmt: skip
        total_a = tl.zeros([BN, BM], tl.float32)
        total_b = tl.zeros([BN, WIDE], tl.float32)
        for i_split in range(0, SPLITS):
            a, b = parts(p_x, p_w, o_row, o_a, o_b, M, i_split * SPAN, K, BN, BM, BESIDE, BK,
                         STEPS, PARTS, EVEN, ABREAST)  # fmt: skip
            total_a += a
            total_b += b
        if WHOLE:
            with_a, with_b = ahead(p_r, p_sums, p_norm, first, o_a, o_b, M, N, BN, BM, BESIDE, MODE,
                                   SUMS, HALVINGS, BLOCK)  # fmt: skip
        emit(total_a, with_a, p_y, p_half, p_into, first, o_a, M, N, eps, K, BN, BM, MODE, SUMS,
             HALVINGS, BLOCK)  # fmt: skip
        if BESIDE > 0:
            emit(total_b, with_b, p_y, p_half, p_into, first, o_b, M, N, eps, K, BN, BESIDE, MODE,
                 SUMS, HALVINGS, BLOCK)  # fmt: skip
    else:
        i_split = tl.program_id(1)
        SIZE: tl.constexpr = BN * (BM + BESIDE)
        p_mine = p_part + i_split * SIZE
        a, b = parts(p_x, p_w, o_row, o_a, o_b, M, i_split * SPAN, K, BN, BM, BESIDE, BK, STEPS,
                     PARTS, EVEN, ABREAST)  # fmt: skip
        at_a = o_i[:, None] * BM + tl.arange(0, BM)[None, :]
        at_b = BN * BM + o_i[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
        tl.store(p_mine + at_a, a)
        if BESIDE > 0:
            tl.store(p_mine + at_b, b)
        tl.debug_barrier()  # every thread's part is written before this program counts as arrived
        if tl.atomic_add(p_count, 1, sem="acq_rel") == SPLITS - 1:
            with_a, with_b = ahead(p_r, p_sums, p_norm, first, o_a, o_b, M, N, BN, BM, BESIDE, MODE,
                                   SUMS, HALVINGS, BLOCK)  # fmt: skip
            total_a = gather_parts(p_part, at_a, BN, BM, SIZE, SPLITS)
            emit(total_a, with_a, p_y, p_half, p_into, first, o_a, M, N, eps, K, BN, BM, MODE, SUMS,
                 HALVINGS, BLOCK)  # fmt: skip
            if BESIDE > 0:
                total_b = gather_parts(p_part, at_b, BN, BESIDE, SIZE, SPLITS)
                emit(total_b, with_b, p_y, p_half, p_into, first, o_b, M, N, eps, K, BN, BESIDE,
                     MODE, SUMS, HALVINGS, BLOCK)  # fmt: skip
            tl.store(p_count, 0)


@triton.jit(do_not_specialize=["M", "MB"])
def linear(
    p_x, p_w, p_y, p_r, p_sums, p_norm, p_half, p_into, p_part, p_count, M, N, MB, eps,
    K: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BESIDE: tl.constexpr, BK: tl.constexpr,
    STEPS: tl.constexpr, PARTS: tl.constexpr, SPLITS: tl.constexpr, EVEN: tl.constexpr,
    ABREAST: tl.constexpr, WHOLE: tl.constexpr, MODE: tl.constexpr, SUMS: tl.constexpr,
    HALVINGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (tiles, SPLITS or 1); counts stay 0."""
    i_tile = tl.program_id(0)
    p_own = p_part + i_tile.to(tl.int64) * (SPLITS * BN * (BM + BESIDE))
    tile(i_tile, p_x, p_w, p_y, p_r, p_sums, p_norm, p_half, p_into, p_own, p_count + i_tile, M, N,
         MB, eps, K, BN, BM, BESIDE, BK, STEPS, PARTS, SPLITS, EVEN, ABREAST, WHOLE, MODE, SUMS,
         HALVINGS, BLOCK)  # fmt: skip


@triton.jit(do_not_specialize=["M", "MB", "FIRST"])
def pair(
    p_x, p_w, p_y, p_stacked, p_gated, p_part, p_count, M, N, F, MB, FIRST, K: tl.constexpr,
    BN: tl.constexpr, BM: tl.constexpr, BESIDE: tl.constexpr, BK: tl.constexpr,
    STEPS: tl.constexpr, PARTS: tl.constexpr, SPLITS: tl.constexpr, EVEN: tl.constexpr,
    ABREAST: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """A plain product of N outputs in FIRST tiles, and a gated one of F in the others."""
    i_tile = tl.program_id(0)
    p_own = p_part + i_tile.to(tl.int64) * (SPLITS * BN * (BM + BESIDE))
    if i_tile < FIRST:
        tile(i_tile, p_x, p_w, p_y, p_y, p_y, p_y, p_y, p_y, p_own, p_count + i_tile, M, N, MB, 0.0,
             K, BN, BM, BESIDE, BK, STEPS, PARTS, SPLITS, EVEN, ABREAST, WHOLE, 0, 0, 0,
             0)  # fmt: skip
    else:
        tile(i_tile - FIRST, p_x, p_stacked, p_gated, p_gated, p_gated, p_gated, p_gated, p_gated,
             p_own, p_count + i_tile, M, F, MB, 0.0, K, BN, BM, BESIDE, BK, STEPS, PARTS, SPLITS,
             EVEN, ABREAST, WHOLE, 2, 0, 0, 0)  # fmt: skip

"""Who goes where in a mixture, its products, and the sum of a token's experts.

Weights x tokens, as in ops/linear: a program multiplies BN weight rows of one expert by BM of its
tokens. K is walked from 0 in one order and BM never changes, so a token's sum does not know who
sits in the other columns.
"""

import triton
import triton.language as tl

# A place of two words at once: (x >> 4 p) & 15 in the last bits of a float whose ulp is 1, less
# what that float has more. Without this a compiler takes 16-bit numbers one by one.
BFLOATS: tl.constexpr = tl.constexpr(
    tuple(
        "{ .reg .b32 bits, one, more; mov.b32 one, 0x3F803F80; mov.b32 more, 0xC308C308;"
        f" shr.u32 bits, $1, {4 * place}; lop3.b32 bits, bits, 0x000F000F, 0x43004300, 0xEA;"
        " fma.rn.bf16x2 $0, bits, one, more; }"
        for place in range(4)
    )
)


@triton.jit
def arrange(
    p_chosen, p_order, p_owner, p_begin, p_end, P, T, PLACERS, EXPERTS: tl.constexpr,
    BE: tl.constexpr, BM: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """Places of BP pairs when sorted by expert, or BP tiles. Grid (PLACERS + tiles / BP,).

    A pair's place is the number of pairs before it: no program waits for another.
    """
    i_x = tl.program_id(0)
    o_p = tl.arange(0, BP)
    if i_x < PLACERS:
        pair = i_x * BP + o_p
        m_pair = pair < P
        expert = tl.load(p_chosen + pair, mask=m_pair, other=0).to(tl.int32)
        place = tl.zeros([BP], tl.int32)
        for base in range(0, P, BP):
            other = base + o_p
            theirs = tl.load(p_chosen + other, mask=other < P, other=BE).to(tl.int32)
            same = theirs[None, :] == expert[:, None]
            before = same & (other[None, :] < pair[:, None])
            place += tl.sum((before | (theirs[None, :] < expert[:, None])).to(tl.int32), 1)
        tl.store(p_order + place, pair, mask=m_pair)
    else:
        o_e = tl.arange(0, BE)
        count = tl.zeros([BE], tl.int32)
        for base in range(0, P, BP):
            other = base + o_p
            theirs = tl.load(p_chosen + other, mask=other < P, other=BE).to(tl.int32)
            count += tl.sum((theirs[None, :] == o_e[:, None]).to(tl.int32), 1)
        needed = (count + BM - 1) // BM
        last = tl.cumsum(needed, 0)  # one past an expert's last tile
        end = tl.cumsum(count, 0)
        o_t = (i_x - PLACERS) * BP + o_p
        passed = (last[None, :] <= o_t[:, None]) & (o_e < EXPERTS)[None, :]
        owner = tl.sum(passed.to(tl.int32), 1)
        own = owner[:, None] == o_e[None, :]
        first = end - count - (last - needed) * BM
        begin = tl.sum(tl.where(own, first[None, :], 0), 1) + o_t * BM
        m_t = o_t < T
        tl.store(p_owner + o_t, owner, mask=m_t)
        tl.store(p_begin + o_t, begin, mask=m_t)
        tl.store(p_end + o_t, tl.sum(tl.where(own, end[None, :], 0), 1), mask=m_t)


@triton.jit
def numbers(words, PLACE: tl.constexpr, kind: tl.constexpr, PAIRED: tl.constexpr):
    """One place of every word as -8 .. 7, exactly, and without the slow conversion of an integer.

    PAIRED is not for the interpreter, which has no assembler.
    """
    if PAIRED and kind == tl.bfloat16:
        exact = tl.inline_asm_elementwise(
            BFLOATS[PLACE], "=r,r", [words], dtype=tl.bfloat16, is_pure=True, pack=2
        )
    else:
        bits = (words >> (4 * PLACE)) & 15
        if kind == tl.bfloat16:
            exact = (bits | 0x4300).to(tl.bfloat16, bitcast=True) - 136.0
        elif kind == tl.float16:
            exact = (bits | 0x6400).to(tl.float16, bitcast=True) - 1032.0
        else:
            exact = (bits.to(tl.int32) | 0x4B000000).to(tl.float32, bitcast=True) - 8388616.0
    return exact


@triton.jit
def spread(scale, COLUMN: tl.constexpr, BM: tl.constexpr):
    """One column of scale [BN, 16] as [BN, BM] float32, exactly.

    Taken by a product, so that scales are staged like operands and arrive where the sums are.
    """
    column = tl.arange(0, 16)[:, None] + tl.zeros([16, BM], tl.int32)
    return tl.dot(scale, (column == COLUMN).to(scale.dtype), input_precision="ieee")


@triton.jit
def multiply_packed(
    p_x, p_words, p_scale, p_y, p_order, p_owner, p_begin, p_end, TOP: tl.constexpr,
    N: tl.constexpr, K: tl.constexpr, LINES: tl.constexpr, GROUPS: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, EXPERTS: tl.constexpr, GATED: tl.constexpr, STAGES: tl.constexpr,
    PAIRED: tl.constexpr,
):  # fmt: skip
    """`multiply` by INT4 rows (ops/experts/packed.py has their order), lines of 256 columns.

    GATED takes half of its BN rows from the gate's and half from up's, in one product.
    """
    i_tile = tl.program_id(0)
    expert = tl.load(p_owner + i_tile)
    if expert < EXPERTS:
        o_pair = tl.load(p_begin + i_tile) + tl.arange(0, BM)
        m_pair = o_pair < tl.load(p_end + i_tile)
        origin = tl.load(p_order + o_pair, mask=m_pair, other=0)
        o_x = origin // TOP if GATED else o_pair
        o_y = o_pair if GATED else origin
        HALF: tl.constexpr = BN // 2
        ROWS: tl.constexpr = 2 * N if GATED else N
        WIDE: tl.constexpr = K // GROUPS // 32
        o_b = tl.arange(0, BN)
        if GATED:
            o_n = tl.program_id(1) * HALF + o_b % HALF
            row = o_b // HALF * N + o_n
        else:
            o_n = tl.program_id(1) * BN + o_b
            row = o_n
        m_n = (o_n < N)[:, None]
        o_w = tl.arange(0, 32)
        o_g = tl.arange(0, 16)
        p_rows = p_words + expert.to(tl.int64) * (ROWS * LINES * 64)
        p_rows += row[:, None] * (LINES * 64) + o_w[None, :]
        p_scales = p_scale + expert.to(tl.int64) * (GROUPS * ROWS) + row[:, None] * GROUPS
        p_tokens = p_x + o_x[None, :].to(tl.int64) * K + o_w[:, None]
        total = tl.zeros([BN, BM], tl.float32)
        for i_line in tl.range(0, LINES, num_stages=STAGES):
            group = (i_line * 8 + o_g) // WIDE
            m_g = (o_g < 8) & (group < GROUPS)
            scale = tl.load(p_scales + group[None, :], mask=m_n & m_g[None, :], other=0.0)
            for i_half in tl.static_range(2):
                words = tl.load(p_rows + (i_line * 64 + i_half * 32), mask=m_n, other=0)
                for i_place in tl.static_range(4):
                    first = (i_line * 8 + i_half * 4 + i_place) * 32
                    m_x = m_pair[None, :]
                    if K % 256:
                        m_x = m_x & (first + o_w < K)[:, None]
                    x = tl.load(p_tokens + first, mask=m_x, other=0.0)
                    w = numbers(words, i_place, x.dtype, PAIRED)
                    factor = spread(scale, i_half * 4 + i_place, BM)
                    total += tl.dot(w, x, input_precision="ieee") * factor
        if GATED:
            pair = tl.permute(tl.reshape(total, [2, HALF, BM]), [1, 2, 0])
            gate, up = tl.split(pair)
            total = gate / (1.0 + tl.exp(-gate)) * up
            o_n = tl.program_id(1) * HALF + tl.arange(0, HALF)
            m_n = (o_n < N)[:, None]
        p_out = p_y + o_y[None, :].to(tl.int64) * N + o_n[:, None]
        tl.store(p_out, total.to(p_y.dtype.element_ty), mask=m_n & m_pair[None, :])


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
    """y = residual + sum of a token's parts, best expert first, times their weights.

    A part without weight may be nobody's, and then was never written.
    """
    i_m = tl.program_id(0).to(tl.int64)
    o_n = tl.program_id(1) * BN + tl.arange(0, BN)
    m_n = o_n < N
    total = tl.load(p_residual + i_m * N + o_n, mask=m_n, other=0.0).to(tl.float32)
    for i_k in tl.static_range(TOP):
        weight = tl.load(p_weight + i_m * TOP + i_k + 0 * o_n)
        m_part = m_n & (weight != 0)
        total += weight * tl.load(p_part + (i_m * TOP + i_k) * N + o_n, mask=m_part, other=0.0)
    tl.store(p_y + i_m * N + o_n, total.to(p_y.dtype.element_ty), mask=m_n)

"""Who goes where in a mixture, its products, and the sum of a token's experts.

Weights x tokens, as in ops/linear: a program multiplies BN weight rows of one expert by BM of its
tokens. K is walked from 0 in one order, so a token's sum does not know who sits in the other
columns.
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
    p_chosen, p_owner, p_pairs, P, T, EXPERTS: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr,
    BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Tiles of BP pairs: each is put behind the pairs of its expert that come before it.

    No program waits for another: each counts all pairs. BE is more than EXPERTS, so that nobody's
    pairs have a place in the count, and no tile.
    """
    o_p = tl.arange(0, BP)
    o_c = tl.arange(0, BC)
    o_e = tl.arange(0, BE)
    pair = tl.program_id(0) * BP + o_p
    expert = tl.load(p_chosen + pair, mask=pair < P, other=EXPERTS).to(tl.int32)
    count = tl.zeros([BE], tl.int32)
    rank = tl.zeros([BP], tl.int32)  # among its expert's
    for base in range(0, P, BC):
        other = base + o_c
        theirs = tl.load(p_chosen + other, mask=other < P, other=EXPERTS).to(tl.int32)
        count += tl.histogram(theirs, BE)
        before = (theirs[None, :] == expert[:, None]) & (other[None, :] < pair[:, None])
        rank += tl.sum(before.to(tl.int32), 1)
    needed = tl.where(o_e < EXPERTS, (count + BM - 1) // BM, 0)
    last = tl.cumsum(needed, 0)  # one past an expert's last tile
    i_tile = tl.gather(last - needed, expert, 0) + rank // BM
    own = (pair < P) & (expert < EXPERTS)
    slot = rank % BM
    tl.store(p_owner + i_tile, expert, mask=own & (slot == 0))
    tl.store(p_pairs + i_tile * BM + slot, pair, mask=own)
    o_m = tl.arange(0, BM)
    final = own & (rank + 1 == tl.gather(count, expert, 0))
    empty = final[:, None] & (o_m[None, :] > slot[:, None])
    tl.store(p_pairs + i_tile[:, None] * BM + o_m[None, :], -1, mask=empty)
    surplus = (pair >= tl.sum(needed, 0)) & (pair < T)
    tl.store(p_owner + pair, EXPERTS, mask=surplus)


@triton.jit
def tile(p_owner, p_pairs, i_tile, BM: tl.constexpr, LONE: tl.constexpr):
    """Expert and pairs [BM] of a tile, -1 where there is none. LONE: a tile is one pair's."""
    expert = tl.load(p_owner + i_tile).to(tl.int32)
    o_m = tl.arange(0, BM)
    pair = tl.where(o_m == 0, i_tile, -1) if LONE else tl.load(p_pairs + i_tile * BM + o_m)
    return expert, pair


@triton.jit
def multiply(
    p_x, p_w, p_y, p_owner, p_pairs, N, TOP: tl.constexpr, K: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, EXPERTS: tl.constexpr, GATED: tl.constexpr,
    LONE: tl.constexpr,
):  # fmt: skip
    """One tile of pairs (token, expert) by BN of N outputs; rows of y are pairs.

    GATED reads the tokens' own rows of x and writes silu(gate) * up; else rows of x are pairs.
    """
    expert, pair = tile(p_owner, p_pairs, tl.program_id(0), BM, LONE)
    if expert < EXPERTS:
        m_pair = pair >= 0
        o_x = pair // TOP if GATED else pair
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
        p_out = p_y + pair[None, :].to(tl.int64) * N + o_n[:, None]
        tl.store(p_out, total.to(p_y.dtype.element_ty), mask=m_n[:, None] & m_pair[None, :])


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
    """One column of scale [.., BN, 16] as [.., BN, BM] float32, exactly.

    Taken by a product, so that scales are staged like operands and arrive where the sums are.
    """
    if len(scale.shape) == 3:
        o_g = tl.arange(0, 16)[None, :, None] + tl.zeros([scale.shape[0], 16, BM], tl.int32)
    else:
        o_g = tl.arange(0, 16)[:, None] + tl.zeros([16, BM], tl.int32)
    return tl.dot(scale, (o_g == COLUMN).to(scale.dtype), input_precision="ieee")


@triton.jit
def folded(total, SEGMENTS: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    """The sum of [SEGMENTS, BN, BM] over the first, a power of two: halves are added."""
    if SEGMENTS == 1:
        whole = tl.reshape(total, [BN, BM])
    else:
        halves = tl.reshape(total, [2, SEGMENTS // 2, BN, BM])
        first, second = tl.split(tl.permute(halves, [1, 2, 3, 0]))
        whole = folded(first + second, SEGMENTS // 2, BN, BM)
    return whole


@triton.jit
def multiply_packed(
    p_x, p_words, p_scale, p_y, p_owner, p_pairs, TOP: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, LINES: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    EXPERTS: tl.constexpr, GATED: tl.constexpr, LONE: tl.constexpr, AXIS: tl.constexpr,
    SEGMENTS: tl.constexpr, STAGES: tl.constexpr, PAIRED: tl.constexpr,
):  # fmt: skip
    """`multiply` by BN INT4 rows, whose lines are cut into SEGMENTS that are walked side by side.

    A warp has a segment, so that a lone token keeps as many bytes coming as many tokens do. GATED
    takes half of its rows from the gate's and half from up's, in one product.
    """
    expert, pair = tile(p_owner, p_pairs, tl.program_id(AXIS), BM, LONE)
    i_n = tl.program_id(1 - AXIS)
    if expert < EXPERTS:
        PIECES: tl.constexpr = 2 if GATED else 1
        PIECE: tl.constexpr = BN // PIECES
        BLOCKS: tl.constexpr = (PIECES * N + 15) // 16
        STEPS: tl.constexpr = (LINES + SEGMENTS - 1) // SEGMENTS
        WHOLE: tl.constexpr = K % 256 == 0 and LINES % SEGMENTS == 0
        o_b = tl.arange(0, BN)[None, :, None]
        o_w = tl.arange(0, 32)
        o_g = tl.arange(0, 16)[None, None, :]
        o_n = i_n * PIECE + o_b % PIECE
        m_n = o_n < N
        row = o_b // PIECE * N + o_n
        line = tl.arange(0, SEGMENTS)[:, None, None] * STEPS
        at = (expert.to(tl.int64) * BLOCKS + row // 16) * (LINES * 16) + line * 16 + row % 16
        p_rows = p_words + at * 64 + o_w[None, None, :]
        p_scales = p_scale + at * 8 + o_g
        m_pair = (pair >= 0)[None, None, :]
        token = pair // TOP if GATED else pair
        p_tokens = p_x + token[None, None, :].to(tl.int64) * K
        p_tokens += line * 256 + o_w[None, :, None]
        total = tl.zeros([SEGMENTS, BN, BM], tl.float32)
        for i_step in tl.range(0, STEPS, num_stages=STAGES):
            m_row = m_n & (line >= 0)
            if not WHOLE:
                m_row = m_n & (line + i_step < LINES)
            scale = tl.load(p_scales + i_step * 128, mask=m_row & (o_g < 8), other=0.0)
            for i_half in tl.static_range(2):
                words = tl.load(p_rows + (i_step * 1024 + i_half * 32), mask=m_row, other=0)
                for i_place in tl.static_range(4):
                    first = i_step * 256 + (i_half * 4 + i_place) * 32
                    m_x = m_pair
                    if not WHOLE:
                        m_x = m_x & (line + i_step < LINES)
                        m_x = m_x & (line * 256 + first + o_w[None, :, None] < K)
                    x = tl.load(p_tokens + first, mask=m_x, other=0.0)
                    w = numbers(words, i_place, x.dtype, PAIRED)
                    factor = spread(scale, i_half * 4 + i_place, BM)
                    total += tl.dot(w, x, input_precision="ieee") * factor
        whole = folded(total, SEGMENTS, BN, BM)
        if GATED:
            both = tl.permute(tl.reshape(whole, [2, PIECE, BM]), [1, 2, 0])
            gate, up = tl.split(both)
            whole = gate / (1.0 + tl.exp(-gate)) * up
        o_n = (i_n * PIECE + tl.arange(0, PIECE))[:, None]
        p_out = p_y + pair[None, :].to(tl.int64) * N + o_n
        tl.store(p_out, whole.to(p_y.dtype.element_ty), mask=(o_n < N) & (pair >= 0)[None, :])


@triton.jit
def walk_packed(
    p_x, p_words, p_scale, p_y, p_owner, p_pairs, N: tl.constexpr, K: tl.constexpr,
    BN: tl.constexpr, BM: tl.constexpr, EXPERTS: tl.constexpr, LONE: tl.constexpr,
    AXIS: tl.constexpr, WALK: tl.constexpr, STAGES: tl.constexpr, PAIRED: tl.constexpr,
):  # fmt: skip
    """With matrices of one line, K <= 256: features are read once for WALK x BN rows."""
    expert, pair = tile(p_owner, p_pairs, tl.program_id(AXIS), BM, LONE)
    i_n = tl.program_id(1 - AXIS)
    if expert < EXPERTS:
        kind: tl.constexpr = p_x.dtype.element_ty
        BLOCKS: tl.constexpr = (N + 15) // 16
        m_pair = (pair >= 0)[None, :]
        o_b = tl.arange(0, BN)[:, None]
        o_w = tl.arange(0, 32)
        o_g = tl.arange(0, 16)[None, :]
        p_pair = p_x + pair[None, :].to(tl.int64) * K + o_w[:, None]
        features = (
            tl.load(p_pair, mask=m_pair & (o_w < K)[:, None], other=0.0),
            tl.load(p_pair + 32, mask=m_pair & (o_w + 32 < K)[:, None], other=0.0),
            tl.load(p_pair + 64, mask=m_pair & (o_w + 64 < K)[:, None], other=0.0),
            tl.load(p_pair + 96, mask=m_pair & (o_w + 96 < K)[:, None], other=0.0),
            tl.load(p_pair + 128, mask=m_pair & (o_w + 128 < K)[:, None], other=0.0),
            tl.load(p_pair + 160, mask=m_pair & (o_w + 160 < K)[:, None], other=0.0),
            tl.load(p_pair + 192, mask=m_pair & (o_w + 192 < K)[:, None], other=0.0),
            tl.load(p_pair + 224, mask=m_pair & (o_w + 224 < K)[:, None], other=0.0),
        )
        begin = i_n * (WALK * BN)
        at = expert.to(tl.int64) * (BLOCKS * 16) + begin + o_b
        p_rows = p_words + at * 64 + o_w[None, :]
        p_scales = p_scale + at * 8 + o_g
        p_out = p_y + pair[None, :].to(tl.int64) * N + begin + o_b
        for i_walk in tl.range(0, WALK, num_stages=STAGES):
            o_n = i_walk * BN + o_b
            m_n = begin + o_n < N
            scale = tl.load(p_scales + i_walk * (BN * 8), mask=m_n & (o_g < 8), other=0.0)
            total = tl.zeros([BN, BM], tl.float32)
            for i_half in tl.static_range(2):
                words = tl.load(p_rows + (i_walk * (BN * 64) + i_half * 32), mask=m_n, other=0)
                for i_place in tl.static_range(4):
                    w = numbers(words, i_place, kind, PAIRED)
                    factor = spread(scale, i_half * 4 + i_place, BM)
                    x = features[i_half * 4 + i_place]
                    total += tl.dot(w, x, input_precision="ieee") * factor
            tl.store(p_out + i_walk * BN, total, mask=m_n & m_pair)


@triton.jit
def combine(
    p_part, p_weight, p_residual, p_inner, p_down, p_y, M, N, TOP: tl.constexpr, K: tl.constexpr,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y = residual + a token's parts, best expert first, times their weights + down of inner.

    Grid (tiles of N, tiles of M). A part without weight may be nobody's, and then was never
    written. K: features of inner, the shared expert's; 0 without one.
    """
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    o_m = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    m_n = o_n < N
    m_m = o_m < M
    mask = m_n[:, None] & m_m[None, :]
    at = o_m[None, :] * N + o_n[:, None]
    total = tl.load(p_residual + at, mask=mask, other=0.0).to(tl.float32)
    for i_k in tl.static_range(TOP):
        weight = tl.load(p_weight + o_m * TOP + i_k, mask=m_m, other=0.0)[None, :]
        p_own = p_part + (o_m[None, :] * TOP + i_k) * N + o_n[:, None]
        total += weight * tl.load(p_own, mask=mask & (weight != 0), other=0.0)
    if K > 0:
        shared = tl.zeros([BN, BM], tl.float32)
        for first in range(0, K, BK):
            o_k = first + tl.arange(0, BK)
            p_rows = p_down + o_n[:, None].to(tl.int64) * K + o_k[None, :]
            w = tl.load(p_rows, mask=m_n[:, None] & (o_k < K)[None, :], other=0.0)
            p_x = p_inner + o_m[:, None] * K + o_k[None, :]
            x = tl.load(p_x, mask=m_m[:, None] & (o_k < K)[None, :], other=0.0)
            shared = tl.dot(w, tl.trans(x), shared, input_precision="ieee")
        total += shared
    tl.store(p_y + at, total.to(p_y.dtype.element_ty), mask=mask)

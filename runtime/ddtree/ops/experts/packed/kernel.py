"""Products of a mixture's INT4 experts: lines go to shared memory by copies that nobody waits for.

Weights x tokens, as the products of floats. A lane of the matrix unit has columns 2 q, 2 q + 1,
2 q + 8 and 2 q + 9 of 16; here it gets eight that lie side by side, of words and features alike, so
that it reads them at once. All is loaded as [rows, columns], rows in the order of `cut`: with more
dimensions Triton 3.6 and 3.7 give lanes unlike rows, and one goes by shared memory once more.
"""

import triton
import triton.language as tl

from ddtree.ops.experts.kernel import pairs, tile

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
def cut(o, SEGMENTS: tl.constexpr):
    """Row and segment of place o: eights of rows, of every segment, one after the other."""
    return o // (8 * SEGMENTS) * 8 + o % 8, o // 8 % SEGMENTS


@triton.jit
def operand(loaded, SEGMENTS: tl.constexpr):
    """[rows in order of `cut`, 32] as [SEGMENTS, rows, 32], columns as lanes have them."""
    R: tl.constexpr = loaded.shape[0] // (8 * SEGMENTS)
    split = tl.reshape(loaded, [R, SEGMENTS, 8, 4, 2, 2, 2])  # lane q, chunk, eight, odd
    return tl.reshape(tl.permute(split, [1, 0, 2, 4, 5, 3, 6]), [SEGMENTS, 8 * R, 32])


@triton.jit
def scales(loaded, SEGMENTS: tl.constexpr):
    """[rows in order of `cut`, 8] of a line as two times four [SEGMENTS, rows] float32, exactly."""
    R: tl.constexpr = loaded.shape[0] // (8 * SEGMENTS)
    split = tl.reshape(loaded.to(tl.float32), [R, SEGMENTS, 8, 8])
    eight = tl.reshape(tl.permute(split, [1, 0, 2, 3]), [SEGMENTS, 8 * R, 2, 2, 2])
    even, odd = tl.split(eight)  # [.., half, high]
    low_even, high_even = tl.split(even)
    low_odd, high_odd = tl.split(odd)
    s_0, s_4 = tl.split(low_even)
    s_1, s_5 = tl.split(low_odd)
    s_2, s_6 = tl.split(high_even)
    s_3, s_7 = tl.split(high_odd)
    return (s_0, s_1, s_2, s_3), (s_4, s_5, s_6, s_7)


@triton.jit
def features(p_x, own, o_k, K: tl.constexpr, ALL: tl.constexpr):
    """Four places of half a line, as words lie; o_k: columns of the first.

    ALL: no column is past K.
    """
    return (
        tl.load(p_x, mask=own if ALL else own & (o_k < K), other=0.0),
        tl.load(p_x + 32, mask=own if ALL else own & (o_k + 32 < K), other=0.0),
        tl.load(p_x + 64, mask=own if ALL else own & (o_k + 64 < K), other=0.0),
        tl.load(p_x + 96, mask=own if ALL else own & (o_k + 96 < K), other=0.0),
    )


@triton.jit
def added(total, words, x, scale, PAIRED: tl.constexpr):
    """Half a line's products on top of total [S, rows, BM]; x, scale: of its four places."""
    S: tl.constexpr = total.shape[0]
    ready = operand(words, S)
    for i_place in tl.static_range(4):
        own = tl.permute(operand(x[i_place], S), [0, 2, 1])
        part = tl.dot(numbers(ready, i_place, own.dtype, PAIRED), own, input_precision="ieee")
        total = tl.fma(part, tl.broadcast_to(scale[i_place][:, :, None], part.shape), total)
    return total


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
def placed(expert, o_b, line, i_n, N: tl.constexpr, LINES: tl.constexpr, PIECE: tl.constexpr,
           PIECES: tl.constexpr):  # fmt: skip
    """Which row of a line rows o_b of a program are; past N they are the last one's again."""
    BLOCKS: tl.constexpr = (PIECES * N + 15) // 16
    o_n = i_n * PIECE + o_b % PIECE
    if N % PIECE != 0:
        o_n = tl.minimum(o_n, N - 1)
    row = o_b // PIECE * N + o_n
    return (expert.to(tl.int64) * BLOCKS + row // 16) * (LINES * 16) + line * 16 + row % 16


@triton.jit
def multiply_packed(
    p_x, p_words, p_scale, p_y, p_owner, p_pairs, TOP: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, LINES: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    EXPERTS: tl.constexpr, GATED: tl.constexpr, LONE: tl.constexpr, SEGMENTS: tl.constexpr,
    STAGES: tl.constexpr, PAIRED: tl.constexpr,
):  # fmt: skip
    """`multiply` by BN INT4 rows, whose lines are cut into SEGMENTS that are walked side by side.

    A warp has a segment, and STAGES - 1 lines on their way. GATED takes half of its rows from the
    gate's and half from up's, in one product. Grid (tiles of N, tiles of pairs).
    """
    expert, pair = tile(p_owner, p_pairs, tl.program_id(1), BM, LONE)
    i_n = tl.program_id(0)
    if expert < EXPERTS:
        PIECES: tl.constexpr = 2 if GATED else 1
        PIECE: tl.constexpr = BN // PIECES
        STEPS: tl.constexpr = (LINES + SEGMENTS - 1) // SEGMENTS
        WHOLE: tl.constexpr = LINES % SEGMENTS == 0
        ALL: tl.constexpr = WHOLE and K % 256 == 0
        o_w = tl.arange(0, 32)[None, :]
        row, segment = cut(tl.arange(0, SEGMENTS * BN), SEGMENTS)
        line = (segment * STEPS)[:, None]
        at = placed(expert, row[:, None], line, i_n, N, LINES, PIECE, PIECES)
        p_lines = p_words + at * 64 + o_w
        p_own = p_scale + at * 8 + tl.arange(0, 8)[None, :]
        o_m, segment = cut(tl.arange(0, SEGMENTS * BM), SEGMENTS)
        of = pairs(p_pairs, tl.program_id(1), o_m, BM, LONE)[:, None]
        token = of // TOP if GATED else of
        o_k = (segment * STEPS)[:, None] * 256 + o_w
        p_tokens = p_x + token.to(tl.int64) * K + o_k
        total = tl.zeros([SEGMENTS, BN, BM], tl.float32)
        for i_step in tl.range(0, STEPS, num_stages=STAGES):
            known = True if WHOLE else line + i_step < LINES
            words = tl.load(p_lines + i_step * 1024, mask=known, other=0)
            words_2 = tl.load(p_lines + (i_step * 1024 + 32), mask=known, other=0)
            scale, scale_2 = scales(tl.load(p_own + i_step * 128, mask=known, other=0.0), SEGMENTS)
            o_now = i_step * 256
            x = features(p_tokens + o_now, of >= 0, o_k + o_now, K, ALL)
            o_half = o_now + 128
            x_2 = features(p_tokens + o_half, of >= 0, o_k + o_half, K, ALL)
            total = added(total, words, x, scale, PAIRED)
            total = added(total, words_2, x_2, scale_2, PAIRED)
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
    WALK: tl.constexpr, STAGES: tl.constexpr, PAIRED: tl.constexpr,
):  # fmt: skip
    """With matrices of one line, K <= 256: features are read once for WALK x BN rows.

    A program is a warp, with the next STAGES - 1 times BN rows on their way. Grid as of
    `multiply_packed`.
    """
    expert, pair = tile(p_owner, p_pairs, tl.program_id(1), BM, LONE)
    i_n = tl.program_id(0)
    if expert < EXPERTS:
        BLOCKS: tl.constexpr = (N + 15) // 16
        WHOLE: tl.constexpr = N % (WALK * BN) == 0
        begin = i_n * (WALK * BN)
        o_w = tl.arange(0, 32)[None, :]
        o_b = tl.arange(0, BN)[:, None]
        first = expert.to(tl.int64) * (BLOCKS * 16) + begin + o_b
        p_rows = p_words + first * 64 + o_w
        p_own = p_scale + first * 8 + tl.arange(0, 8)[None, :]
        of = pairs(p_pairs, tl.program_id(1), tl.arange(0, BM), BM, LONE)[:, None]
        p_held = p_x + of.to(tl.int64) * K + o_w
        x = features(p_held, of >= 0, o_w, K, K % 256 == 0)
        x_2 = features(p_held + 128, of >= 0, o_w + 128, K, K % 256 == 0)
        o_n = begin + tl.arange(0, BN)[None, :, None]
        p_out = p_y + pair[None, None, :].to(tl.int64) * N + o_n
        m_out = (pair >= 0)[None, None, :] & (o_n >= 0)
        for i_walk in tl.range(0, WALK, num_stages=STAGES):
            o_now = i_walk * BN
            known = True if WHOLE else begin + o_b + o_now < N
            words = tl.load(p_rows + o_now * 64, mask=known, other=0)
            words_2 = tl.load(p_rows + (o_now * 64 + 32), mask=known, other=0)
            scale, scale_2 = scales(tl.load(p_own + o_now * 8, mask=known, other=0.0), 1)
            total = tl.zeros([1, BN, BM], tl.float32)
            total = added(total, words, x, scale, PAIRED)
            total = added(total, words_2, x_2, scale_2, PAIRED)
            here = m_out if WHOLE else m_out & (o_n + o_now < N)
            tl.store(p_out + o_now, total, mask=here)

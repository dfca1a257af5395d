"""The halves of a norm, of tiles that a product holds in registers.

Bits of a token are the same in any tile: squares are added in pairs alone, in one order of pairs.
"""

import triton
import triton.language as tl


@triton.jit
def in_pairs(x, HALVINGS: tl.constexpr):
    """[A, B] of x [A, 2^HALVINGS, B]: sums of two alone, whose bits no layout of x can change."""
    A: tl.constexpr = x.shape[0]
    B: tl.constexpr = x.shape[2]
    for i in tl.static_range(1, HALVINGS + 1):
        x = tl.sum(tl.reshape(x, [A, 2, (1 << HALVINGS) >> i, B]), 1)
    return tl.reshape(x, [A, B])


@triton.jit
def end_norm(total, sums, eps, K: tl.constexpr, BM: tl.constexpr, HALVINGS: tl.constexpr):
    """What a token [BN, BM] is, divided by the root of its mean square."""
    FOURS: tl.constexpr = 1 << (HALVINGS - 2)  # what a thread has read at once
    fours = in_pairs(tl.reshape(sums, [FOURS, 4, BM]), 2)
    mean = in_pairs(tl.reshape(fours, [1, FOURS, BM]), HALVINGS - 2) / K
    scale = 1.0 / tl.sqrt(mean + eps)
    return total * tl.reshape(scale, [1, BM])


@triton.jit
def begin_norm(
    h, weight, p_half, p_into, first, o_m, o_y, mask, M, N, BN: tl.constexpr, BM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write h [BN, BM] times the norm's weight, and sums of its squares over 16 of a token's N."""
    half = h.to(tl.float32) * weight.to(tl.float32)[:, None]
    tl.store(p_half + o_y, half.to(p_half.dtype.element_ty), mask=mask)
    h = tl.where(mask, h, 0.0).to(tl.float32)
    tl.static_assert(BLOCK == 16)
    squares = in_pairs(tl.reshape(h * h, [BN // BLOCK, BLOCK, BM]), 4)
    blocks = tl.cdiv(N, BLOCK)
    o_b = first // BLOCK + tl.arange(0, BN // BLOCK)
    o_into = o_m[None, :].to(tl.int64) * blocks + o_b[:, None]
    tl.store(p_into + o_into, squares, mask=(o_b < blocks)[:, None] & (o_m < M)[None, :])

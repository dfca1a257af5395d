"""The most probable tokens of each position, in order: maxima of blocks first, then few blocks.

A token among the K best lies in one of the K blocks with the largest maxima, equals counted from
the left on both sides: K other blocks would hold a better token each. So the vocabulary is read
once, for maxima and the sum of exponentials, and then K blocks of it again.
"""

import triton
import triton.language as tl

from ddtree.ops.weights.kernel import float_of, order_of


@triton.jit
def part(
    p_logits, p_tops, p_stats, V, BLOCKS, PARTS, BV: tl.constexpr, BS: tl.constexpr,
    SHORT: tl.constexpr,
):  # fmt: skip
    """Of BV logits: orders of the maxima of BS, the maximum, the sum. Grid (rows, PARTS).

    SHORT: the lower half of every order is of no use, as in bfloat16.
    """
    i_row = tl.program_id(0).to(tl.int64)
    i_part = tl.program_id(1)
    o_b = i_part * (BV // BS) + tl.arange(0, BV // BS)
    o_v = o_b[:, None] * BS + tl.arange(0, BS)[None, :]
    x = tl.load(p_logits + i_row * V + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
    tops = tl.max(x, 1)
    order = order_of(tops) >> 16 if SHORT else order_of(tops)
    tl.store(p_tops + i_row * BLOCKS + o_b, order, mask=o_b < BLOCKS)
    top = tl.max(tops, 0)
    base = tl.where(top == float("-inf"), 0.0, top)  # of a part that holds nothing else
    total = tl.sum(tl.sum(tl.exp(x - base), 1), 0)
    cell = i_row * PARTS + i_part
    tl.store(p_stats + cell * 2, top)
    tl.store(p_stats + cell * 2 + 1, total)


@triton.jit
def kept_of(order, K):
    """Which of `order` [BC] are the K largest, of equals the first; and their places, in turn."""
    low = tl.min(order, 0)  # at least K are not below it
    high = tl.max(order, 0)
    while low < high:
        odd = (low & high & 1) | ((low ^ high) & 1)
        middle = (low >> 1) + (high >> 1) + odd  # rounded up; their sum may not fit
        count = tl.sum((order >= middle).to(tl.int32), 0)
        high = tl.where(count > K, high, tl.where(count == K, middle, middle - 1))
        low = tl.where(count >= K, middle, low)
    over = (order > low).to(tl.int32)
    tie = (order == low).to(tl.int32)
    both = (over << 16) | tie
    before = tl.cumsum(both, 0) - both
    spare = K - tl.sum(over, 0)
    ties = before & 0xFFFF
    kept = (over == 1) | ((tie == 1) & (ties < spare))
    return kept, (before >> 16) + tl.minimum(ties, spare)


@triton.jit
def norm_of(p_stats, i_row, PARTS, BP: tl.constexpr):
    """log of the sum of exponentials of a row."""
    o_p = tl.arange(0, BP)
    p_row = p_stats + (i_row * PARTS + o_p) * 2
    tops = tl.load(p_row, mask=o_p < PARTS, other=float("-inf"))
    totals = tl.load(p_row + 1, mask=o_p < PARTS, other=0.0)
    top = tl.max(tops, 0)
    return top + tl.log(tl.sum(totals * tl.exp(tops - top), 0))


@triton.jit
def in_order(order, place, o_k, K: tl.constexpr, SHORT: tl.constexpr):
    """Orders and places, the largest first, of equals the first place."""
    if SHORT:  # half an order and a place are one number
        key = ((order >> 16) << 16) | (0xFFFF - place)
        key = tl.sort(tl.where(o_k < K, key, -(1 << 31)), descending=True)
        order = (key >> 16) << 16
        return order | tl.where(order < 0, 0xFFFF, 0), 0xFFFF - (key & 0xFFFF)
    key = (order.to(tl.int64) << 32) | (0x7FFFFFFF - place)
    key = tl.sort(tl.where(o_k < K, key, -(1 << 63)), descending=True)
    return (key >> 32).to(tl.int32), 0x7FFFFFFF - (key & 0x7FFFFFFF).to(tl.int32)


@triton.jit
def rank(
    p_logits, p_tops, p_stats, p_found, p_tokens, p_logprobs, V, BLOCKS, PARTS, K: tl.constexpr,
    KB: tl.constexpr, BB: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr,
    BS: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """The K best of a row's KB best blocks, and their log-probabilities. Grid (rows,).

    A place is a block's, times BS, and a token's in it. What fills up a vector is behind all else,
    so that it loses to whatever it equals.
    """
    i_row = tl.program_id(0).to(tl.int64)
    p_logits += i_row * V
    p_blocks = p_found + i_row * (KB + K)
    p_places = p_blocks + KB
    LEAST: tl.constexpr = -(1 << (15 if SHORT else 31))
    norm = norm_of(p_stats, i_row, PARTS, BP)
    o_b = tl.arange(0, BB)
    order = tl.load(p_tops + i_row * BLOCKS + o_b, mask=o_b < BLOCKS, other=LEAST)
    kept, at = kept_of(order, KB)
    tl.store(p_blocks + at, o_b, mask=kept)
    tl.debug_barrier()  # other threads wrote them
    o_c = tl.arange(0, BC)
    m_c = o_c < KB * BS
    token = tl.load(p_blocks + o_c // BS, mask=m_c, other=0) * BS + o_c % BS
    m_c = m_c & (token < V)
    x = tl.load(p_logits + token, mask=m_c, other=float("-inf")).to(tl.float32)
    order = order_of(x) >> 16 if SHORT else order_of(x)
    kept, at = kept_of(tl.where(m_c, order, LEAST), K)
    tl.store(p_places + at, o_c, mask=kept)
    tl.debug_barrier()
    o_k = tl.arange(0, BK)
    place = tl.load(p_places + o_k, mask=o_k < K, other=0)
    token = tl.load(p_blocks + place // BS) * BS + place % BS
    x = tl.load(p_logits + token, mask=o_k < K, other=float("-inf")).to(tl.float32)
    order, place = in_order(order_of(x), place, o_k, K, SHORT)
    place = tl.where(o_k < K, place, 0)
    token = tl.load(p_blocks + place // BS) * BS + place % BS
    tl.store(p_tokens + i_row * K + o_k, token.to(tl.int64), mask=o_k < K)
    tl.store(p_logprobs + i_row * K + o_k, float_of(order) - norm, mask=o_k < K)

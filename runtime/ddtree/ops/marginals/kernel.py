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
def kept_of(order, low, K, MOST):
    """The K largest of `order` [BC], or some more, but no more than MOST: of equals the first.

    low: at least K are not below it. Which they are, their places in turn, how many, and the least
    that they all reach.
    """
    count = tl.sum((order >= low).to(tl.int32), 0)
    if count > MOST:
        high = tl.max(order, 0)
        while (count > MOST) & (low < high):
            odd = (low & high & 1) | ((low ^ high) & 1)
            middle = (low >> 1) + (high >> 1) + odd  # rounded up; their sum may not fit
            reach = tl.sum((order >= middle).to(tl.int32), 0)
            high = tl.where(reach < K, middle - 1, high)
            low = tl.where(reach < K, low, middle)
            count = tl.where(reach < K, count, reach)
    over = (order > low).to(tl.int32)
    tie = (order == low).to(tl.int32)
    both = (over << 16) | tie
    before = tl.cumsum(both, 0) - both
    spare = MOST - tl.sum(over, 0)
    ties = before & 0xFFFF
    kept = (over == 1) | ((tie == 1) & (ties < spare))
    return kept, (before >> 16) + tl.minimum(ties, spare), tl.minimum(count, MOST), low


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
def key_of(order, place, SHORT: tl.constexpr):
    """A number in the order of the orders, of equals the first place above: halves if SHORT."""
    half = (order << 16) | (0xFFFF - place)
    return half if SHORT else (order.to(tl.int64) << 32) | (0x7FFFFFFF - place)


@triton.jit
def order_and_place(key, SHORT: tl.constexpr):
    """Of a key, the order whole."""
    if SHORT:
        order = (key >> 16) << 16
        order, place = order | tl.where(order < 0, 0xFFFF, 0), 0xFFFF - (key & 0xFFFF)
    else:
        order, place = (key >> 32).to(tl.int32), 0x7FFFFFFF - (key & 0x7FFFFFFF).to(tl.int32)
    return order, place


@triton.jit
def rank_of(key, p_keys, found, BK: tl.constexpr, LEAST: tl.constexpr):
    """How many of the `found` keys are above each of them; of what is behind them its own place."""
    BJ: tl.constexpr = min(BK, 64)
    above = tl.full([BK], 0, tl.int32)
    for begin in range(0, BK, BJ):
        o_j = begin + tl.arange(0, BJ)
        other = tl.load(p_keys + o_j, mask=o_j < found, other=LEAST)
        above += tl.sum((other[None, :] > key[:, None]).to(tl.int32), 1)
    o_k = tl.arange(0, BK)
    return tl.where(o_k < found, above, o_k)


@triton.jit
def rank(
    p_logits, p_tops, p_stats, p_blocks, p_keys, p_tokens, p_logprobs, V, BLOCKS, PARTS,
    K: tl.constexpr, KB: tl.constexpr, BB: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr,
    BK: tl.constexpr, BS: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """The K best of a row's KB best blocks, and their log-probabilities. Grid (rows,).

    A place is a block's, times BS, and a token's in it. Of blocks as many are kept as BC has room
    for, of tokens BK, which are then ranked. What fills up a vector is behind all else, so that it
    loses to whatever it equals.
    """
    i_row = tl.program_id(0).to(tl.int64)
    p_logits += i_row * V
    p_blocks += i_row * (BC // BS)
    p_keys += i_row * BK
    LEAST: tl.constexpr = -(1 << (15 if SHORT else 31))
    norm = norm_of(p_stats, i_row, PARTS, BP)
    o_b = tl.arange(0, BB)
    order = tl.load(p_tops + i_row * BLOCKS + o_b, mask=o_b < BLOCKS, other=LEAST)
    low = tl.min(tl.where(o_b < BLOCKS, order, 0x7FFFFFFF), 0)
    kept, at, blocks, low = kept_of(order, low, KB, BC // BS)
    tl.store(p_blocks + at, o_b, mask=kept)
    tl.debug_barrier()  # other threads wrote them
    o_c = tl.arange(0, BC)
    m_c = o_c // BS < blocks
    token = tl.load(p_blocks + o_c // BS, mask=m_c, other=0) * BS + o_c % BS
    m_c = m_c & (token < V)
    x = tl.load(p_logits + token, mask=m_c, other=float("-inf")).to(tl.float32)
    order = tl.where(m_c, order_of(x) >> 16 if SHORT else order_of(x), LEAST)
    low = low if KB == K else LEAST  # which the maximum of every block reaches
    kept, at, found, low = kept_of(order, low, K, BK)
    tl.store(p_keys + at, key_of(order, o_c, SHORT), mask=kept)
    tl.debug_barrier()
    o_k = tl.arange(0, BK)
    m_k = o_k < found  # fewer than K where logits are no numbers
    LAST: tl.constexpr = LEAST << (16 if SHORT else 32)
    key = tl.load(p_keys + o_k, mask=m_k, other=LAST)
    at = i_row * K + rank_of(key, p_keys, found, BK, LAST)
    order, place = order_and_place(key, SHORT)
    token = tl.load(p_blocks + place // BS, mask=m_k, other=0) * BS + place % BS
    token = tl.where(m_k, token, 0).to(tl.int64)
    m_k = at < (i_row + 1) * K
    tl.store(p_tokens + at, token, mask=m_k)
    tl.store(p_logprobs + at, float_of(order) - norm, mask=m_k)

"""The most probable tokens of each position, in order: parts of the vocabulary, then all parts.

A part keeps its best K by bisecting for a threshold in registers; nothing but K entries is sorted.
An entry is an order-preserving score above the mirrored token, so entries are unique and equal
scores go to the smaller token. It is as narrow as it can be: a bit is a round of the bisection.
"""

import triton
import triton.language as tl

from ddtree.ops.sample.kernel import order_of
from ddtree.ops.tree_build.kernel import score_of


@triton.jit
def keep(entries, p_out, K: tl.constexpr, BC: tl.constexpr):
    """Write the K largest of `entries` [BC], all different, in no order."""
    low = tl.min(entries, 0) - 1  # above `low` lie all of them, above `high` none
    high = tl.max(entries, 0)
    count = tl.full([], BC, tl.int32)
    while count != K:
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their sum may not fit
        above = tl.sum((entries > middle).to(tl.int32), 0)
        more = above >= K
        low = tl.where(more, middle, low)
        high = tl.where(more, high, middle)
        count = tl.where(more, above, count)
    kept = (entries > low).to(tl.int32)
    at = tl.cumsum(kept, 0) - 1
    tl.store(p_out + at, entries, mask=kept == 1)


@triton.jit
def part(
    p_logits, p_entries, p_stats, V, PARTS, K: tl.constexpr, BV: tl.constexpr, BITS: tl.constexpr,
    SHORT: tl.constexpr,
):  # fmt: skip
    """The K best of BV logits, their maximum and sum of exponentials. Grid (rows, PARTS).

    BITS of a token; SHORT: the lower half of every score is of no use, as in bfloat16.
    """
    i_row = tl.program_id(0).to(tl.int64)
    i_part = tl.program_id(1)
    o_v = i_part * BV + tl.arange(0, BV)
    x = tl.load(p_logits + i_row * V + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    base = tl.where(top == float("-inf"), 0.0, top)  # of a part that holds nothing else
    total = tl.sum(tl.exp(x - base), 0)
    cell = i_row * PARTS + i_part
    tl.store(p_stats + cell * 2, top)
    tl.store(p_stats + cell * 2 + 1, total)
    order = (order_of(x) >> 16 if SHORT else order_of(x)).to(tl.int64)
    entries = (order << BITS) | ((1 << BITS) - 1 - o_v).to(tl.int64)
    keep(entries, p_entries + cell * K, K, BV)


@triton.jit
def rank(
    p_entries, p_stats, p_best, p_tokens, p_logprobs, PARTS, K: tl.constexpr, BC: tl.constexpr,
    BP: tl.constexpr, BK: tl.constexpr, BITS: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """The K best of all parts in order, and their log-probabilities. Grid (rows,)."""
    i_row = tl.program_id(0).to(tl.int64)
    o_p = tl.arange(0, BP)
    p_row = p_stats + (i_row * PARTS + o_p) * 2
    tops = tl.load(p_row, mask=o_p < PARTS, other=float("-inf"))
    totals = tl.load(p_row + 1, mask=o_p < PARTS, other=0.0)
    top = tl.max(tops, 0)
    norm = top + tl.log(tl.sum(totals * tl.exp(tops - top), 0))
    o_c = tl.arange(0, BC)
    LEAST: tl.constexpr = -(1 << (BITS + (15 if SHORT else 31)))  # of all entries
    spare = LEAST - 1 - o_c.to(tl.int64)  # below every entry, and all different
    entries = tl.load(p_entries + i_row * PARTS * K + o_c, mask=o_c < PARTS * K, other=0)
    entries = tl.where(o_c < PARTS * K, entries, spare)
    keep(entries, p_best + i_row * K, K, BC)
    tl.debug_barrier()  # other threads wrote them
    o_k = tl.arange(0, BK)
    best = tl.load(p_best + i_row * K + o_k, mask=o_k < K, other=0)
    best = tl.sort(tl.where(o_k < K, best, LEAST - 1), descending=True)
    token = (1 << BITS) - 1 - (best & ((1 << BITS) - 1))
    order = best >> BITS
    if SHORT:
        order = (order << 16) | tl.where(order < 0, 0xFFFF, 0)
    tl.store(p_tokens + i_row * K + o_k, token, mask=o_k < K)
    tl.store(p_logprobs + i_row * K + o_k, score_of(order << 32) - norm, mask=o_k < K)

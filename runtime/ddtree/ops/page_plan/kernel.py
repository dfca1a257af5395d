"""Slots, last visible position, path and tail of one new token."""

import triton
import triton.language as tl

from ddtree.ops.tree_attention.kernel import edge_of


@triton.jit
def bits_of(p_words, i_w, N):
    """Word i_w of a row as 64 numbers, of which the last is nobody's; and whose they are."""
    o_bit = tl.arange(0, 64)
    node = i_w * 63 + o_bit
    bit = (tl.load(p_words + i_w) >> o_bit) & 1
    return tl.where((o_bit < 63) & (node < N), bit, 0).to(tl.int32), node


@triton.jit
def plan(
    p_start, p_table, s_table, p_words, s_words_b, s_words_n, p_write, p_last, p_path, p_tail, N,
    W: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr, GRAIN: tl.constexpr,
    TAIL: tl.constexpr, PATTERN: tl.constexpr,
):  # fmt: skip
    """Token program_id(0) of row program_id(1). PATTERN 0 tree, 1 causal, 2 all.

    A tail is the slots from an edge to the last position, along the path in a tree; then -1.
    """
    i_n = tl.program_id(0)
    i_b = tl.program_id(1).to(tl.int64)
    start = tl.load(p_start + i_b)
    p_table += i_b * s_table
    p_words += i_b * s_words_b + i_n * s_words_n
    cell = i_b * N + i_n
    position = start + i_n
    tl.store(p_write + cell, tl.load(p_table + position // PAGE) * PAGE + position % PAGE)
    last = position
    if PATTERN == 0:
        depth = 0
        for i_w in tl.static_range(W):
            bit, node = bits_of(p_words, i_w, N)
            depth += tl.sum(bit, 0)
        last = start + depth - 1
    elif PATTERN == 2:
        last = start + N - 1
    tl.store(p_last + cell, last.to(tl.int32))
    edge = edge_of(last, REACH, GRAIN)
    at = edge + tl.arange(0, TAIL)
    cached = at < start if PATTERN == 0 else at <= last
    page = tl.load(p_table + at // PAGE, mask=cached, other=0)
    slot = tl.where(cached, page * PAGE + at % PAGE, -1)
    p_tail += cell * TAIL
    tl.store(p_tail + tl.arange(0, TAIL), slot.to(tl.int32), mask=cached | (at > last))
    if PATTERN == 0:
        rank = 0
        for i_w in tl.static_range(W):
            bit, node = bits_of(p_words, i_w, N)
            depth = rank + tl.cumsum(bit, 0) - bit  # ancestors come in depth order
            known = (bit == 1) & (depth <= REACH)
            place = start + node
            page = tl.load(p_table + place // PAGE, mask=known, other=0)
            slot = page * PAGE + place % PAGE
            tl.store(p_path + cell * (REACH + 1) + depth, slot, mask=known)
            into = start + depth - edge
            tl.store(p_tail + into, slot.to(tl.int32), mask=known & (into >= 0))
            rank += tl.sum(bit, 0)

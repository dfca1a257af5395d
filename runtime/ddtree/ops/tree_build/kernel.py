"""Best-first growth of one row's tree in one warp: the heap is a vector, a pop a reduction.

An entry holds the next of a node's children: a pop frees it for the sibling, and the new node's
children get an entry of their own, so `budget` entries are enough. Keys are negated scores: floats
that are not negative, whose bits are in their order, so that a reduction is one instruction.
What the least key is after a pop is known from reductions side by side: the least of the rest, and
the log-probability of the new node's first child, which the popped entry holds. Equals, of which
the earlier push wins, are rare and go through it twice. What a node is (parent, depth, rank) waits
in `p_parents` until the loop is over: its token and its words are then found for all nodes at once.
"""

import triton
import triton.language as tl


@triton.jit
def key_of(before, logprob):
    """The key of a prefix, from what its parent's score lacks to 0; never -0.0."""
    return (before - logprob).to(tl.int32, bitcast=True)


@triton.jit
def found_at(popped, values):
    """The value of the one entry that is popped; of several the largest."""
    return tl.max(tl.where(popped, values, -0x80000000), 0)


@triton.jit
def pop(popped, keys, nexts, notes, firsts):
    """The popped entry's note and its `firsts`, and the least key that it leaves."""
    rest = tl.min(tl.where(popped, nexts, keys), 0)
    first = found_at(popped, firsts).to(tl.float32, bitcast=True)
    return found_at(popped, notes), first, rest


@triton.jit
def bit_of(node, o_w):
    """The word o_w of a node's own bit."""
    place = node - o_w * 63
    one = tl.full(place.shape, 1, tl.int64)
    return tl.where((place >= 0) & (place < 63), one << (place & 63), 0)


@triton.jit
def spread(
    p_ranked, p_tokens, p_parents, p_depths, p_scores, p_words, row, root, last, deepest,
    BUDGET: tl.constexpr, WIDE: tl.constexpr, W: tl.constexpr, BW: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Tokens, depths and ancestors of the nodes to `last`, whose notes are in p_parents."""
    for base in range(0, BUDGET + 1, BLOCK):
        o_n = base + tl.arange(0, BLOCK)
        m_n = o_n <= BUDGET
        used = (o_n > 0) & (o_n <= last)
        note = tl.load(p_parents + row + o_n, mask=used, other=0).to(tl.int32)
        depth = (note >> 10) & 0x3F
        at = (depth - 1) * WIDE + (note & 0x3FF)
        token = tl.load(p_ranked + at, mask=used, other=0)
        tl.store(p_tokens + row + o_n, tl.where(used, token, root), mask=m_n)
        depth = tl.where(o_n <= last, depth, -1)
        tl.store(p_depths + row + o_n, depth.to(tl.int64), mask=m_n)
        tl.store(p_scores + row + o_n, float("-inf"), mask=m_n & (o_n > last))
        o_w = tl.arange(0, BW)[None, :]
        above = o_n[:, None] + o_w * 0  # of a node and a word, so that no step moves between lanes
        words = bit_of(above, o_w)
        inside = (above > 0) & (above <= last)
        for _ in range(0, deepest):
            above = tl.load(p_parents + row + above, mask=inside, other=0).to(tl.int32) >> 16
            words |= tl.where(inside, bit_of(above, o_w), 0)
            inside = inside & (above > 0)
        p_out = p_words + (row + o_n)[:, None] * W + o_w
        tl.store(p_out, words, mask=m_n[:, None] & (o_w < W))
    tl.debug_barrier()  # other threads read the notes than overwrite them
    for base in range(0, BUDGET + 1, BLOCK):
        o_n = base + tl.arange(0, BLOCK)
        note = tl.load(p_parents + row + o_n, mask=(o_n > 0) & (o_n <= last), other=0)
        parent = tl.where(o_n == 0, -1, note >> 16)
        tl.store(p_parents + row + o_n, parent, mask=o_n <= BUDGET)


@triton.jit
def grow(
    p_root, p_ranked, p_logprobs, p_limit, p_branch, p_tokens, p_parents, p_depths, p_scores,
    p_words, BUDGET: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr, SIZE: tl.constexpr,
    TABLE: tl.constexpr, W: tl.constexpr, BW: tl.constexpr, BLOCK: tl.constexpr,
    BOUND: tl.constexpr,
):  # fmt: skip
    """The tree of row program_id(0); marginals [B, DEEP, WIDE], outputs [B, BUDGET + 1]."""
    i_b = tl.program_id(0).to(tl.int64)
    p_ranked += i_b * DEEP * WIDE
    p_logprobs += i_b * DEEP * WIDE
    row = i_b * (BUDGET + 1)
    NEVER: tl.constexpr = 0x7FFFFFFF
    EMPTY: tl.constexpr = 0x7F800000  # the key of -inf
    NONE: tl.constexpr = float("-inf")
    o_entry = tl.arange(0, SIZE)
    root = tl.load(p_root + i_b)
    limit = tl.minimum(tl.load(p_limit + i_b), BUDGET).to(tl.int32) if BOUND else BUDGET
    branch = tl.load(p_branch + i_b) if BOUND else 0.0
    begin = tl.load(p_logprobs)
    second = tl.load(p_logprobs + 1) if WIDE > 1 else tl.full([], NONE, tl.float32)
    below = tl.load(p_logprobs + WIDE) if DEEP > 1 else tl.full([], NONE, tl.float32)
    o_l = tl.arange(0, TABLE)  # all of them, so that the loop finds them near
    table = tl.load(p_logprobs + o_l, mask=o_l < DEEP * WIDE, other=0.0)
    sound = tl.max((table != table).to(tl.int32), 0) == 0
    best = tl.where(sound, key_of(0.0, begin), EMPTY)
    top = o_entry == 0
    keys = tl.where(top, best, EMPTY)
    nexts = tl.where(top, key_of(0.0, second + branch), EMPTY)  # the sibling's key
    befores = tl.full([SIZE], 0.0, tl.float32)  # what the node's own score lacks to 0
    firsts = tl.where(top, below, 0.0).to(tl.int32, bitcast=True)  # the best a depth further
    orders = tl.where(top, 0, NEVER)
    notes = tl.where(top, 1 << 10, 0)  # parent above depth (6 bits) above rank (10 bits)
    node = tl.full([], 1, tl.int32)
    deepest = tl.full([], 0, tl.int32)
    while (node <= limit) & (best < EMPTY):
        popped = keys == best
        note, first, rest = pop(popped, keys, nexts, notes, firsts)
        if tl.sum(popped.to(tl.int32), 0) > 1:
            popped = popped & (orders == tl.min(tl.where(popped, orders, NEVER), 0))
            note, first, rest = pop(popped, keys, nexts, notes, firsts)
        before = best.to(tl.float32, bitcast=True)
        child = key_of(before, first)
        depth = (note >> 10) & 0x3F
        rank = note & 0x3FF
        p_next = p_logprobs + depth * WIDE  # of the children's depth
        after = tl.load(p_next - WIDE + rank + 2, mask=rank + 2 < WIDE, other=NONE)
        second = tl.load(p_next + 1, mask=(depth < DEEP) & (WIDE > 1), other=NONE)
        below = tl.load(p_next + WIDE, mask=depth + 1 < DEEP, other=NONE)
        tl.store(p_parents + row + node, note.to(tl.int64))
        tl.store(p_scores + row + node, 0.0 - before)
        pushed = o_entry == node
        keys = tl.where(popped, nexts, tl.where(pushed, child, keys))
        nexts = tl.where(pushed, key_of(before, second + branch), nexts)
        nexts = tl.where(popped, key_of(befores, after + branch), nexts)
        befores = tl.where(pushed, before, befores)
        firsts = tl.where(pushed, below.to(tl.int32, bitcast=True), firsts)
        orders = tl.where(popped, 2 * node - 1, tl.where(pushed, 2 * node, orders))
        notes = tl.where(pushed, (node << 16) | ((depth + 1) << 10), notes + popped.to(tl.int32))
        deepest = tl.maximum(deepest, depth)
        best = tl.minimum(rest, child)
        node += 1
    tl.store(p_scores + row, 0.0)
    tl.debug_barrier()  # other threads read the notes than wrote them
    spread(p_ranked, p_tokens, p_parents, p_depths, p_scores, p_words, row, root, node - 1,
           deepest, BUDGET, WIDE, W, BW, BLOCK)  # fmt: skip


@triton.jit
def alone(p_parents, p_depths, p_words, B, BLOCK: tl.constexpr):
    """Of BLOCK roots: no parent, no depth, themselves as ancestor."""
    o_b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one = tl.full([BLOCK], 1, tl.int64)
    tl.store(p_parents + o_b, -one, mask=o_b < B)
    tl.store(p_depths + o_b, one - one, mask=o_b < B)
    tl.store(p_words + o_b, one, mask=o_b < B)

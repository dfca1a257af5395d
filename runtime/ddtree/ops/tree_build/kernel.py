"""Best-first growth of one row's tree in one warp: the heap is a vector, a pop a reduction.

A pop frees its entry for the sibling; the child goes to a new one, so `budget` entries are enough.
Scores are order-preserving integers and the earlier push wins among equals: two reductions for
which a warp has an instruction, and three that fetch the entry. The log-probability of the sibling
was loaded when the entry was pushed. What a node is (parent, depth, rank) waits in `p_parents`
until the loop is over: its token and its words are then found for all nodes at once.
"""

import triton
import triton.language as tl

from ddtree.ops.weights.kernel import float_of, order_of


@triton.jit
def score_at(score):
    """The order of a score that can be popped, else the least of all."""
    return tl.where(score > float("-inf"), order_of(score), -0x80000000)


@triton.jit
def found_at(popped, values):
    """The value of the one entry that is popped."""
    return tl.sum(tl.where(popped, values, 0), 0)


@triton.jit
def spread(
    p_ranked, p_tokens, p_parents, p_depths, p_words, row, root, BUDGET: tl.constexpr,
    DEEP: tl.constexpr, WIDE: tl.constexpr, W: tl.constexpr, BW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Tokens, depths and ancestors of the nodes whose notes are in p_parents."""
    for base in range(0, BUDGET + 1, BLOCK):
        o_n = base + tl.arange(0, BLOCK)
        m_n = o_n <= BUDGET
        note = tl.load(p_parents + row + o_n, mask=m_n & (o_n > 0), other=-1).to(tl.int32)
        used = note >= 0
        depth = (note >> 10) & 0x3F
        at = (depth - 1) * WIDE + (note & 0x3FF)
        token = tl.load(p_ranked + at, mask=used, other=0)
        tl.store(p_tokens + row + o_n, tl.where(used, token, root), mask=m_n)
        depth = tl.where(used, depth, tl.where(o_n == 0, 0, -1))
        tl.store(p_depths + row + o_n, depth.to(tl.int64), mask=m_n)
        o_w = tl.arange(0, BW)
        one = tl.full([BLOCK, BW], 1, tl.int64)
        words = tl.where((o_n // 63)[:, None] == o_w[None, :], one << (o_n % 63)[:, None], 0)
        parent = note >> 16
        inside = used
        for _ in range(0, DEEP):
            bit = one << tl.where(inside, parent % 63, 0)[:, None]
            mine = ((parent // 63)[:, None] == o_w[None, :]) & inside[:, None]
            words = words | tl.where(mine, bit, 0)
            inside = inside & (parent > 0)
            parent = tl.load(p_parents + row + parent, mask=inside, other=0).to(tl.int32) >> 16
        p_out = p_words + (row + o_n)[:, None] * W + o_w[None, :]
        tl.store(p_out, words, mask=m_n[:, None] & (o_w < W)[None, :])
    tl.debug_barrier()  # other threads read the notes than overwrite them
    for base in range(0, BUDGET + 1, BLOCK):
        o_n = base + tl.arange(0, BLOCK)
        note = tl.load(p_parents + row + o_n, mask=(o_n <= BUDGET) & (o_n > 0), other=-1)
        parent = tl.where(o_n == 0, -1, tl.where(note >= 0, note >> 16, 0))
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
    EMPTY: tl.constexpr = -0x80000000
    NEVER: tl.constexpr = 0x7FFFFFFF
    NONE: tl.constexpr = float("-inf")
    o_entry = tl.arange(0, SIZE)
    root = tl.load(p_root + i_b)
    limit = tl.load(p_limit + i_b) if BOUND else BUDGET
    branch = tl.load(p_branch + i_b) if BOUND else 0.0
    first = tl.load(p_logprobs)
    second = tl.load(p_logprobs + 1) if WIDE > 1 else tl.full([], NONE, tl.float32)
    o_l = tl.arange(0, TABLE)  # all of them, so that the loop finds them near
    table = tl.load(p_logprobs + o_l, mask=o_l < DEEP * WIDE, other=0.0)
    sound = tl.max((table != table).to(tl.int32), 0) == 0
    begin = o_entry == 0
    scores = tl.where(begin & sound, score_at(first), EMPTY)
    orders = tl.where(begin, 0, NEVER)
    notes = tl.where(begin, 1 << 10, 0)  # parent above depth (6 bits) above rank (10 bits)
    befores = tl.full([SIZE], 0, tl.int32)  # the parent's score
    nexts = tl.where(begin, second, NONE).to(tl.int32, bitcast=True)  # the sibling's part of one
    for node in range(1, BUDGET + 1):
        best = tl.max(scores, 0)
        order = tl.min(tl.where(scores == best, orders, NEVER), 0)
        popped = orders == order
        note = found_at(popped, notes)
        before = found_at(popped, befores).to(tl.float32, bitcast=True)
        next_rank = found_at(popped, nexts).to(tl.float32, bitcast=True)
        used = (best > EMPTY) & (node <= limit)
        depth = (note >> 10) & 0x3F
        rank = note & 0x3FF
        score = float_of(best)
        deeper = used & (depth < DEEP)
        p_after = p_logprobs + (depth - 1) * WIDE + rank + 2
        after = tl.load(p_after, mask=used & (rank + 2 < WIDE), other=NONE)
        next_depth = tl.load(p_logprobs + depth * WIDE, mask=deeper, other=NONE)
        aside = tl.full([], NONE, tl.float32)
        if WIDE > 1:
            aside = tl.load(p_logprobs + depth * WIDE + 1, mask=deeper, other=NONE)
        tl.store(p_parents + row + node, tl.where(used, note, -1).to(tl.int64))
        tl.store(p_scores + row + node, tl.where(used, score, NONE))
        sibling = tl.where(used, score_at(before + (next_rank + branch)), EMPTY)
        child = score_at(score + next_depth)
        popped = popped & used
        pushed = o_entry == node
        below = (node << 16) | ((depth + 1) << 10)
        after = after.to(tl.int32, bitcast=True)
        aside = aside.to(tl.int32, bitcast=True)
        scores = tl.where(popped, sibling, tl.where(pushed, child, scores))
        orders = tl.where(popped, 2 * node - 1, tl.where(pushed, 2 * node, orders))
        notes = tl.where(popped, note + 1, tl.where(pushed, below, notes))
        befores = tl.where(pushed, score.to(tl.int32, bitcast=True), befores)
        nexts = tl.where(popped, after, tl.where(pushed, aside, nexts))
    tl.store(p_scores + row, 0.0)
    tl.debug_barrier()  # other threads read the notes than wrote them
    spread(p_ranked, p_tokens, p_parents, p_depths, p_words, row, root,
           BUDGET, DEEP, WIDE, W, BW, BLOCK)  # fmt: skip


@triton.jit
def alone(p_parents, p_depths, p_words, B, BLOCK: tl.constexpr):
    """Of BLOCK roots: no parent, no depth, themselves as ancestor."""
    o_b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one = tl.full([BLOCK], 1, tl.int64)
    tl.store(p_parents + o_b, -one, mask=o_b < B)
    tl.store(p_depths + o_b, one - one, mask=o_b < B)
    tl.store(p_words + o_b, one, mask=o_b < B)

"""Best-first growth of one row's tree in one warp: the heap is a vector, a pop a reduction.

A pop frees its entry for the sibling; the child goes to a new one, so `budget` entries are enough.
Keys are the score in order-preserving bits above the push order, so one maximum decides ties too.
"""

import triton
import triton.language as tl


@triton.jit
def key_of(score, order):
    """int64: larger score first, then the earlier push."""
    score = tl.where(score == 0.0, 0.0, score)  # -0.0 and 0.0 are one score
    bits = score.to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.to(tl.int64) << 32) | (0x7FFFFFFF - order)


@triton.jit
def score_of(key):
    """The score inside a key."""
    bits = (key >> 32).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def note_of(before, parent, depth, rank):
    """What a candidate carries: its parent's score, its parent, depth and rank."""
    bits = before.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return bits | (parent << 16) | (depth << 10) | rank


@triton.jit
def better(key, note, other_key, other_note):
    first = key >= other_key
    return tl.where(first, key, other_key), tl.where(first, note, other_note)


@triton.jit
def grow(
    p_root, p_ranked, p_logprobs, p_limit, p_branch, p_tokens, p_parents, p_depths, p_scores,
    p_words, BUDGET: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr, SIZE: tl.constexpr,
    W: tl.constexpr, BW: tl.constexpr, BLOCK: tl.constexpr, BOUND: tl.constexpr,
):  # fmt: skip
    """The tree of row program_id(0); marginals [B, DEEP, WIDE], outputs [B, BUDGET + 1]."""
    i_b = tl.program_id(0).to(tl.int64)
    p_ranked += i_b * DEEP * WIDE
    p_logprobs += i_b * DEEP * WIDE
    row = i_b * (BUDGET + 1)
    EMPTY: tl.constexpr = -0x7FFFFFFFFFFFFFFF
    o_entry = tl.arange(0, SIZE)
    root = tl.load(p_root + i_b)
    limit = tl.load(p_limit + i_b) if BOUND else BUDGET
    branch = tl.load(p_branch + i_b) if BOUND else 0.0
    tl.store(p_tokens + row, root)
    tl.store(p_parents + row, tl.full([], -1, tl.int64))
    tl.store(p_depths + row, tl.full([], 0, tl.int64))
    tl.store(p_scores + row, 0.0)
    first = tl.load(p_logprobs)
    key = tl.where(first > float("-inf"), key_of(first, tl.full([], 0, tl.int32)), EMPTY)
    keys = tl.where(o_entry == 0, key, EMPTY)
    nothing = tl.full([SIZE], 0, tl.int32)
    notes = note_of(nothing.to(tl.float32), nothing, nothing + 1, nothing)
    for node in range(1, BUDGET + 1):
        key, note = tl.reduce((keys, notes), 0, better)
        used = (key > EMPTY) & (node <= limit)
        score = score_of(key)
        before = (note >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        parent = ((note >> 16) & 0xFFFF).to(tl.int32)
        depth = ((note >> 10) & 0x3F).to(tl.int32)
        rank = (note & 0x3FF).to(tl.int32)
        at = (depth - 1) * WIDE + rank
        token = tl.load(p_ranked + at, mask=used, other=0)
        next_rank = tl.load(p_logprobs + at + 1, mask=used & (rank + 1 < WIDE), other=float("-inf"))
        m_child = used & (depth < DEEP)
        next_depth = tl.load(p_logprobs + depth * WIDE, mask=m_child, other=float("-inf"))
        tl.store(p_tokens + row + node, tl.where(used, token, root))
        tl.store(p_parents + row + node, tl.where(used, parent, 0).to(tl.int64))
        tl.store(p_depths + row + node, tl.where(used, depth, -1).to(tl.int64))
        tl.store(p_scores + row + node, tl.where(used, score, float("-inf")))
        sibling = before + (next_rank + branch)
        child = score + next_depth
        sibling_key = tl.where(sibling > float("-inf"), key_of(sibling, 2 * node - 1), EMPTY)
        child_key = tl.where(child > float("-inf"), key_of(child, 2 * node), EMPTY)
        popped = (keys == key) & used
        pushed = o_entry == node
        keys = tl.where(popped, sibling_key, tl.where(pushed, child_key, keys))
        sibling_note = note_of(before, parent, depth, rank + 1)
        child_note = note_of(score, node, depth + 1, rank * 0)
        notes = tl.where(popped, sibling_note, tl.where(pushed, child_note, notes))
    tl.debug_barrier()  # the parents are read by other threads than wrote them
    o_w = tl.arange(0, BW)
    for base in range(0, BUDGET + 1, BLOCK):
        o_n = base + tl.arange(0, BLOCK)
        m_n = o_n <= BUDGET
        at = o_n.to(tl.int64)
        inside = tl.load(p_depths + row + o_n, mask=m_n, other=-1) > 0
        one = tl.full([BLOCK, BW], 1, tl.int64)
        words = tl.where((at // 63)[:, None] == o_w[None, :], one << (at % 63)[:, None], 0)
        for _ in range(0, DEEP):
            at = tl.load(p_parents + row + at, mask=inside, other=-1)
            bit = one << tl.where(at >= 0, at % 63, 0)[:, None]
            mine = ((at // 63)[:, None] == o_w[None, :]) & inside[:, None]
            words = words | tl.where(mine, bit, 0)
            inside = inside & (at > 0)
        p_out = p_words + (row + o_n)[:, None] * W + o_w[None, :]
        tl.store(p_out, words, mask=m_n[:, None] & (o_w < W)[None, :])

"""The choice of experts, a token a warp: nothing but its scores is read, and no thread waits."""

import triton
import triton.language as tl


@triton.jit
def admitted(scores, o_e, GROUPS: tl.constexpr, ACTIVE: tl.constexpr, SIZE: tl.constexpr,
             BG: tl.constexpr):  # fmt: skip
    """Scores [BE] of the ACTIVE groups that are best by the sum of their two best; else -inf."""
    o_g = tl.arange(0, BG)
    judged = tl.full([BG], float("-inf"), tl.float32)
    for i_group in tl.static_range(GROUPS):
        own = tl.where(o_e // SIZE == i_group, scores, float("-inf"))
        best = tl.max(own, 0)
        rest = tl.where(o_e == tl.argmax(own, 0, tie_break_left=True), float("-inf"), own)
        judged = tl.where(o_g == i_group, best + tl.max(rest, 0), judged)
    inside = o_e < 0
    for _ in tl.static_range(ACTIVE):
        group = tl.argmax(judged, 0, tie_break_left=True)
        inside = inside | (o_e // SIZE == group)
        judged = tl.where(o_g == group, float("-inf"), judged)
    return tl.where(inside, scores, float("-inf"))


@triton.jit
def route(
    p_logits, p_correction, p_chosen, p_weights, scaling, E: tl.constexpr, BE: tl.constexpr,
    K: tl.constexpr, BK: tl.constexpr, GROUPS: tl.constexpr, ACTIVE: tl.constexpr,
    BG: tl.constexpr, SIGMOID: tl.constexpr, NORMALISED: tl.constexpr,
):  # fmt: skip
    """Experts [K] of one token, best first, and their weights."""
    i_t = tl.program_id(0).to(tl.int64)
    o_e = tl.arange(0, BE)
    m_e = o_e < E
    logits = tl.load(p_logits + i_t * E + o_e, mask=m_e, other=float("-inf"))
    if SIGMOID:
        scores = 1.0 / (1.0 + tl.exp(-logits))
        scores += tl.load(p_correction + o_e, mask=m_e, other=0.0)
        if ACTIVE < GROUPS:
            scores = tl.where(m_e, scores, float("-inf"))
            scores = admitted(scores, o_e, GROUPS, ACTIVE, E // GROUPS, BG)
    else:
        best = tl.max(logits, 0)
        scores = tl.exp(logits - best)
        total = tl.sum(scores, 0)
        scores = scores / total
    # Integers in the order of the scores: a warp finds the largest of them in one instruction
    NOTHING: tl.constexpr = -(2**31)
    key = scores.to(tl.int32, bitcast=True)
    key = key ^ ((key >> 31) & 0x7FFFFFFF)
    key = tl.where(m_e, key, NOTHING)
    o_k = tl.arange(0, BK)
    chosen = tl.zeros([BK], tl.int32)
    for i_k in tl.static_range(K):
        first = tl.min(tl.where(key == tl.max(key, 0), o_e, BE), 0)
        chosen = tl.where(o_k == i_k, first, chosen)
        key = tl.where(o_e == first, NOTHING, key)
    m_k = o_k < K
    # of a score that is no number, too, the place is one of the table
    own = tl.load(p_logits + i_t * E + chosen, mask=m_k, other=float("-inf"))
    weights = 1.0 / (1.0 + tl.exp(-own)) if SIGMOID else tl.exp(own - best) / total
    if NORMALISED:
        whole = tl.sum(weights, 0)
        if SIGMOID:
            whole += 1e-20
        weights = weights / whole
    tl.store(p_chosen + i_t * K + o_k, chosen.to(tl.int64), mask=m_k)
    tl.store(p_weights + i_t * K + o_k, weights * scaling, mask=m_k)

"""The choice of experts, a token a program: nothing but its scores is read."""

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
        shares = 1.0 / (1.0 + tl.exp(-logits))
        scores = shares + tl.load(p_correction + o_e, mask=m_e, other=0.0)
        scores = tl.where(m_e, scores, float("-inf"))
        if ACTIVE < GROUPS:
            scores = admitted(scores, o_e, GROUPS, ACTIVE, E // GROUPS, BG)
    else:
        shares = tl.exp(logits - tl.max(logits, 0))
        shares = shares / tl.sum(shares, 0)
        scores = tl.where(m_e, shares, float("-inf"))
    o_k = tl.arange(0, BK)
    chosen = tl.zeros([BK], tl.int32)
    weights = tl.zeros([BK], tl.float32)
    for i_k in tl.static_range(K):
        # a score that is no number must not lead past the table
        best = tl.minimum(tl.argmax(scores, 0, tie_break_left=True), E - 1)
        chosen = tl.where(o_k == i_k, best, chosen)
        weights = tl.where(o_k == i_k, tl.sum(tl.where(o_e == best, shares, 0.0), 0), weights)
        scores = tl.where(o_e == best, float("-inf"), scores)
    if NORMALISED:
        total = tl.sum(weights, 0)
        if SIGMOID:
            total += 1e-20
        weights = weights / total
    m_k = o_k < K
    tl.store(p_chosen + i_t * K + o_k, chosen.to(tl.int64), mask=m_k)
    tl.store(p_weights + i_t * K + o_k, weights * scaling, mask=m_k)

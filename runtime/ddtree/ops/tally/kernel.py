"""The end of a step for one row."""

import triton
import triton.language as tl


@triton.jit
def tally(
    p_depths, s_depths, p_scores, s_scores, p_length, p_tokens, p_peak, p_budgets, p_index,
    p_start, p_root, p_out, padding, N, M, LEVELS, BUDGETS,
    BN: tl.constexpr, BM: tl.constexpr, BL: tl.constexpr,
):  # fmt: skip
    """Row program_id(0): LEVELS committed tokens at most, BUDGETS sums over M scores."""
    i_b = tl.program_id(0).to(tl.int64)
    p_row = p_out + i_b * (3 + BUDGETS + LEVELS)
    length = tl.load(p_length + i_b)
    o_n = tl.arange(0, BN)
    depths = tl.load(p_depths + i_b * s_depths + o_n, mask=o_n < N, other=0)
    peak = tl.load(p_peak + i_b * N + o_n, mask=o_n < N, other=0.0)
    healthy = tl.min((tl.abs(peak) < float("inf")).to(tl.int32), 0)
    tl.store(p_row, length.to(tl.float64))
    tl.store(p_row + 1, tl.sum((depths > 0).to(tl.int32), 0).to(tl.float64))
    tl.store(p_row + 2, healthy.to(tl.float64))
    o_m = tl.arange(0, BM)
    m_m = (o_m > 0) & (o_m < M)
    scores = tl.load(p_scores + i_b * s_scores + o_m, mask=m_m, other=float("-inf"))
    mass = tl.exp(scores).to(tl.float64)
    for i in range(0, BUDGETS):
        budget = tl.load(p_budgets + i)
        tl.store(p_row + 3 + i, tl.sum(tl.where(o_m <= budget, mass, 0.0), 0))
    o_l = tl.arange(0, BL)
    tokens = tl.load(p_tokens + i_b * LEVELS + o_l, mask=o_l < LEVELS, other=0)
    tl.store(p_row + 3 + BUDGETS + o_l, tokens.to(tl.float64), mask=o_l < LEVELS)
    index = tl.load(p_index + i_b)
    if index != padding:
        bonus = tl.load(p_tokens + i_b * LEVELS + length - 1)
        tl.store(p_start + index, tl.load(p_start + index) + length)
        tl.store(p_root + index, bonus)

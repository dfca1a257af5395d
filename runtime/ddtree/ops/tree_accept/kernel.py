"""The accepted path of one row: a node is in when all its ancestors' choices agree."""

import triton
import triton.language as tl


@triton.jit
def accept(
    p_tokens, p_parents, p_depths, p_words, s_tree, s_words_b, s_words_n, p_chosen,
    p_path, p_length, p_out, N, LEVELS, BN: tl.constexpr, BL: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Row program_id(0). Tree fields share the row stride s_tree; outputs are [B, LEVELS]."""
    i_b = tl.program_id(0).to(tl.int64)
    o_n = tl.arange(0, BN)
    m_n = o_n < N
    at = i_b * s_tree + o_n
    token = tl.load(p_tokens + at, mask=m_n, other=-1)
    parent = tl.load(p_parents + at, mask=m_n, other=0)
    depth = tl.load(p_depths + at, mask=m_n, other=-1)
    p_row = p_chosen + i_b * N
    wanted = tl.load(p_row + tl.maximum(parent, 0), mask=m_n, other=-2)
    agrees = m_n & ((o_n == 0) | ((token == wanted) & (depth > 0)))
    missing = tl.zeros([BN], tl.int64)
    for i_w in tl.static_range(W):
        o_bit = o_n - i_w * 63
        here = agrees & (o_bit >= 0) & (o_bit < 63)
        one = tl.full([BN], 1, tl.int64)
        agreed = tl.sum(tl.where(here, one << tl.where(here, o_bit, 0), 0), 0)
        word = tl.load(p_words + i_b * s_words_b + o_n * s_words_n + i_w, mask=m_n, other=0)
        missing = missing | (word & ~agreed)
    accepted = m_n & (missing == 0)
    length = tl.sum(accepted.to(tl.int64), 0)
    o_level = tl.arange(0, BL)
    lies = accepted[None, :] & (depth[None, :] == o_level[:, None])
    path = tl.max(tl.where(lies, o_n[None, :], 0), 1)  # siblings differ: one node a level
    last = tl.sum(tl.where(o_level == length - 1, path, 0), 0)
    path = tl.where(o_level < length, path, last)
    m_level = o_level < LEVELS
    tl.store(p_length + i_b, length)
    tl.store(p_path + i_b * LEVELS + o_level, path.to(tl.int64), mask=m_level)
    tl.store(p_out + i_b * LEVELS + o_level, tl.load(p_row + path, mask=m_level), mask=m_level)

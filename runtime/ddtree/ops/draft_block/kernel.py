"""One row's block."""

import triton
import triton.language as tl


@triton.jit
def block(p_root, p_start, p_tokens, p_positions, mask, SIZE: tl.constexpr, BT: tl.constexpr):
    """Row program_id(0) of tokens and positions [B, SIZE]."""
    i_b = tl.program_id(0).to(tl.int64)
    o_t = tl.arange(0, BT)
    m_t = o_t < SIZE
    token = tl.where(o_t == 0, tl.load(p_root + i_b), mask)
    tl.store(p_tokens + i_b * SIZE + o_t, token, mask=m_t)
    tl.store(p_positions + i_b * SIZE + o_t, tl.load(p_start + i_b) + o_t, mask=m_t)

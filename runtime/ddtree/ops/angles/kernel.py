"""The angles of one position."""

import triton
import triton.language as tl


@triton.jit
def turns(p_positions, p_frequency, p_cos, p_sin, amplitude, D: tl.constexpr, BD: tl.constexpr):
    """cos and sin of position program_id(0)."""
    i_t = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, BD)
    m_d = o_d < D
    position = tl.load(p_positions + i_t).to(tl.float32)
    angle = position * tl.load(p_frequency + o_d, mask=m_d, other=0.0)
    cos = tl.cos(angle) * amplitude
    sin = tl.sin(angle) * amplitude
    sin = tl.where(o_d < D // 2, -sin, sin)
    tl.store(p_cos + i_t * D + o_d, cos.to(p_cos.dtype.element_ty), mask=m_d)
    tl.store(p_sin + i_t * D + o_d, sin.to(p_sin.dtype.element_ty), mask=m_d)

"""Root-mean-square norm of one row a program: no row knows another."""

import triton
import triton.language as tl


@triton.jit
def rms_norm(
    p_x, p_delta, p_weight, p_y, eps, H: tl.constexpr, BH: tl.constexpr, ADD: tl.constexpr
):
    """y = x / rms(x) * weight in float32; with ADD, x += delta first, rounded and written back."""
    row = tl.program_id(0).to(tl.int64) * H
    o_h = tl.arange(0, BH)
    m_h = o_h < H
    x = tl.load(p_x + row + o_h, mask=m_h, other=0.0)
    if ADD:
        delta = tl.load(p_delta + row + o_h, mask=m_h, other=0.0)
        x = (x.to(tl.float32) + delta.to(tl.float32)).to(x.dtype)
        tl.store(p_x + row + o_h, x, mask=m_h)
    x = x.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / H + eps)
    weight = tl.load(p_weight + o_h, mask=m_h, other=0.0).to(tl.float32)
    tl.store(p_y + row + o_h, (x * scale * weight).to(p_y.dtype.element_ty), mask=m_h)

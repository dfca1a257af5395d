"""A latent is normed, its key rotated, both go to their slot; the heads' queries are rotated."""

import triton
import triton.language as tl


@triton.jit
def turn(p_x, s_x, o_h, m_h, p_cos, p_sin, p_y, s_y, D: tl.constexpr):
    """Rows o_h of p_x, rotated, to the same rows of p_y."""
    HALF: tl.constexpr = D // 2
    o_d = tl.arange(0, HALF)
    p_low = p_x + o_h[:, None] * s_x + o_d[None, :]
    low = tl.load(p_low, mask=m_h[:, None], other=0.0).to(tl.float32)
    high = tl.load(p_low + HALF, mask=m_h[:, None], other=0.0).to(tl.float32)
    cos = tl.load(p_cos + o_d).to(tl.float32)[None, :]
    sin = tl.load(p_sin + HALF + o_d).to(tl.float32)[None, :]  # the first half is negated
    p_out = p_y + o_h[:, None] * s_y + o_d[None, :]
    tl.store(p_out, (low * cos - high * sin).to(p_y.dtype.element_ty), mask=m_h[:, None])
    tl.store(p_out + HALF, (high * cos + low * sin).to(p_y.dtype.element_ty), mask=m_h[:, None])


@triton.jit
def rope_latents(
    p_joint, s_joint, p_turning, s_turning, s_head, p_cos, p_sin, p_latents, p_slots, p_weight,
    p_q, eps, H: tl.constexpr, R: tl.constexpr, D: tl.constexpr, BR: tl.constexpr,
    BH: tl.constexpr,
):  # fmt: skip
    """One token's latent, or BH heads of its queries. Grid (tokens, 1 + heads / BH)."""
    i_t = tl.program_id(0).to(tl.int64)
    i_y = tl.program_id(1)
    p_cos += i_t * D
    p_sin += i_t * D
    if i_y == 0:
        p_row = p_joint + i_t * s_joint
        p_entry = p_latents + tl.load(p_slots + i_t) * (R + D)
        o_r = tl.arange(0, BR)
        m_r = o_r < R
        x = tl.load(p_row + o_r, mask=m_r, other=0.0).to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / R + eps)
        weight = tl.load(p_weight + o_r, mask=m_r, other=0.0).to(tl.float32)
        tl.store(p_entry + o_r, (x * scale * weight).to(p_latents.dtype.element_ty), mask=m_r)
        one = tl.arange(0, 1)
        turn(p_row + R, D, one, one < 1, p_cos, p_sin, p_entry + R, D, D)
    else:
        o_h = (i_y - 1) * BH + tl.arange(0, BH)
        p_rows = p_turning + i_t * s_turning
        p_out = p_q + i_t * (H * (R + D)) + R
        turn(p_rows, s_head, o_h, o_h < H, p_cos, p_sin, p_out, R + D, D)

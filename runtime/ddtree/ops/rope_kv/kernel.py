"""Head norm and rotary positions, with keys and values going straight to their slots."""

import triton
import triton.language as tl


@triton.jit
def turn(p_x, o_h, m_h, p_cos, p_sin, p_weight, eps, D: tl.constexpr, NORM: tl.constexpr):
    """Heads o_h of p_x [H, D], normed and rotated, as halves [BH, D / 2] in float32."""
    HALF: tl.constexpr = D // 2
    o_d = tl.arange(0, HALF)
    at = o_h[:, None] * D + o_d[None, :]
    low = tl.load(p_x + at, mask=m_h[:, None], other=0.0).to(tl.float32)
    high = tl.load(p_x + at + HALF, mask=m_h[:, None], other=0.0).to(tl.float32)
    if NORM:
        square = tl.sum(low * low + high * high, 1) / D
        scale = 1.0 / tl.sqrt(square + eps)
        low *= scale[:, None] * tl.load(p_weight + at, mask=m_h[:, None], other=0.0).to(tl.float32)
        weight = tl.load(p_weight + at + HALF, mask=m_h[:, None], other=0.0).to(tl.float32)
        high *= scale[:, None] * weight
    cos = tl.load(p_cos + o_d).to(tl.float32)[None, :]
    sin = tl.load(p_sin + HALF + o_d).to(tl.float32)[None, :]  # the first half is negated
    return low * cos - high * sin, high * cos + low * sin


@triton.jit
def put(p_y, o_h, m_h, low, high, D: tl.constexpr):
    """Write halves to heads o_h of p_y [H, D]."""
    at = o_h[:, None] * D + tl.arange(0, D // 2)[None, :]
    tl.store(p_y + at, low.to(p_y.dtype.element_ty), mask=m_h[:, None])
    tl.store(p_y + at + D // 2, high.to(p_y.dtype.element_ty), mask=m_h[:, None])


@triton.jit
def rope_kv(
    p_joint, p_cos, p_sin, p_weight, p_q, p_k, p_v, p_slots, eps,
    HQ: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """BH heads of one token. Grid (tokens, heads / BH); heads are queries, keys, then values."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h = tl.program_id(1) * BH + tl.arange(0, BH)
    slot = tl.load(p_slots + i_t)
    p_row = p_joint + i_t * (HQ + 2 * HKV) * D
    low, high = turn(
        p_row, o_h, o_h < HQ + HKV, p_cos + i_t * D, p_sin + i_t * D, p_weight, eps, D, NORM
    )
    put(p_q + i_t * HQ * D, o_h, o_h < HQ, low, high, D)
    put(p_k + slot * HKV * D, o_h - HQ, (o_h >= HQ) & (o_h < HQ + HKV), low, high, D)
    m_v = (o_h >= HQ + HKV) & (o_h < HQ + 2 * HKV)
    at = o_h[:, None] * D + tl.arange(0, D)[None, :]
    v = tl.load(p_row + at, mask=m_v[:, None], other=0.0)
    tl.store(p_v + slot * HKV * D + at - (HQ + HKV) * D, v, mask=m_v[:, None])


@triton.jit
def context(
    p_joint, p_cos, p_sin, p_weight, p_kv, s_layer, s_side, p_slots, eps,
    LAYERS: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """Keys and values of one token in one layer, from [T, layers, 2, Hkv, D]. Grid (T, layers)."""
    i_t = tl.program_id(0).to(tl.int64)
    i_layer = tl.program_id(1).to(tl.int64)
    o_h = tl.arange(0, BH)
    m_h = o_h < HKV
    slot = tl.load(p_slots + i_t) * (HKV * D)
    p_row = p_joint + (i_t * LAYERS + i_layer) * (2 * HKV * D)
    p_layer = p_kv + i_layer * s_layer
    low, high = turn(
        p_row, o_h, m_h, p_cos + i_t * D, p_sin + i_t * D, p_weight + i_layer * HKV * D, eps, D,
        NORM,
    )  # fmt: skip
    put(p_layer + slot, o_h, m_h, low, high, D)
    at = o_h[:, None] * D + tl.arange(0, D)[None, :]
    v = tl.load(p_row + HKV * D + at, mask=m_h[:, None], other=0.0)
    tl.store(p_layer + s_side + slot + at, v, mask=m_h[:, None])

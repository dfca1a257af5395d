"""A latent is normed, its key rotated, both go to their slot; queries go to the latents' space."""

import triton
import triton.language as tl

from ddtree.ops.head_linear.kernel import head_tile


@triton.jit
def turn(p_x, s_x, o_r, m_r, p_cos, p_sin, s_angle, p_y, s_y, D: tl.constexpr):
    """Rows o_r of p_x, each rotated by its angles, to the same rows of p_y."""
    HALF: tl.constexpr = D // 2
    o_d = tl.arange(0, HALF)
    p_low = p_x + o_r[:, None] * s_x + o_d[None, :]
    low = tl.load(p_low, mask=m_r[:, None], other=0.0).to(tl.float32)
    high = tl.load(p_low + HALF, mask=m_r[:, None], other=0.0).to(tl.float32)
    at = o_r[:, None] * s_angle + o_d[None, :]
    cos = tl.load(p_cos + at, mask=m_r[:, None], other=0.0).to(tl.float32)
    sin = tl.load(p_sin + HALF + at, mask=m_r[:, None], other=0.0).to(tl.float32)
    # the first half of sin is negated
    p_out = p_y + o_r[:, None] * s_y + o_d[None, :]
    tl.store(p_out, (low * cos - high * sin).to(p_y.dtype.element_ty), mask=m_r[:, None])
    tl.store(p_out + HALF, (high * cos + low * sin).to(p_y.dtype.element_ty), mask=m_r[:, None])


@triton.jit
def norm(p_x, p_weight, p_y, eps, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """One row over its root mean square, times the weight."""
    o_x = tl.arange(0, BLOCK)
    m_x = o_x < SIZE
    x = tl.load(p_x + o_x, mask=m_x, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / SIZE + eps)
    weight = tl.load(p_weight + o_x, mask=m_x, other=0.0).to(tl.float32)
    tl.store(p_y + o_x, (x * scale * weight).to(p_y.dtype.element_ty), mask=m_x)


@triton.jit
def rope_latents(
    p_joint, s_joint, p_cos, p_sin, p_latents, p_slots, p_weight, eps, p_query, p_query_weight,
    query_eps, R: tl.constexpr, D: tl.constexpr, BR: tl.constexpr, Q: tl.constexpr,
    BQ: tl.constexpr,
):  # fmt: skip
    """One token's latent, or the norm of its query's latent. Grid (tokens, 1 or 2)."""
    i_t = tl.program_id(0).to(tl.int64)
    p_row = p_joint + i_t * s_joint
    if tl.program_id(1) == 0:
        p_entry = p_latents + tl.load(p_slots + i_t) * (R + D)
        norm(p_row + Q, p_weight, p_entry, eps, R, BR)
        one = tl.arange(0, 1)
        p_cos += i_t * D
        p_sin += i_t * D
        turn(p_row + Q + R, D, one, one < 1, p_cos, p_sin, D, p_entry + R, D, D)
    else:
        norm(p_row, p_query_weight, p_query + i_t * Q, query_eps, Q, BQ)


@triton.jit
def queries(
    p_x, s_x, s_x_head, p_w, s_w_head, p_cos, p_sin, p_y, s_y, s_y_head, M, N: tl.constexpr,
    K: tl.constexpr, D: tl.constexpr, S_N: tl.constexpr, S_K: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """K numbers of a head's query by its matrix, and D behind them rotated.

    Grid (tiles of N and one more, tiles of M, heads).
    """
    TILES: tl.constexpr = (N + BN - 1) // BN
    i_n = tl.program_id(0)
    i_h = tl.program_id(2).to(tl.int64)
    p_x += i_h * s_x_head
    p_y += i_h * s_y_head
    if i_n < TILES:
        p_w += i_h * s_w_head
        head_tile(p_x, s_x, p_w, p_y, s_y, M, i_n, tl.program_id(1), N, K, S_N, S_K, BN, BM, BK)
    else:
        o_m = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
        turn(p_x + K, s_x, o_m, o_m < M, p_cos, p_sin, D, p_y + N, s_y, D)

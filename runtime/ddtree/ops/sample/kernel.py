"""One token for each row of logits, without sorting them and without a host read.

A row is read once, for the largest logit and the weight of each strip of it. A draw then finds its
strip, and reads that again.
"""

import triton
import triton.language as tl

from ddtree.ops.filters.kernel import filtered
from ddtree.ops.weights.kernel import reached, weight_of


@triton.jit
def mix(x):
    """A bijective scramble of 32-bit integers held in int64."""
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@triton.jit
def uniform(seed, position):
    """One number in (0, 1), float64, for a pair of int64s."""
    golden = tl.full([], 0x9E3779B9, tl.int64)
    key = mix((seed & 0xFFFFFFFF) ^ mix(((seed >> 32) & 0xFFFFFFFF) ^ golden))
    first = mix(key ^ mix(position & 0xFFFFFFFF))
    second = mix(first ^ mix((position + 0x7F4A7C15) & 0xFFFFFFFF))
    bits = (first << 20) | (second >> 12)
    return (bits.to(tl.float64) + 0.5) * (1.0 / 4503599627370496.0)


@triton.jit
def scale_of(temperature):
    """What a logit is multiplied with, so that 2 to its power is its weight."""
    return 1.4426950408889634 / tl.maximum(temperature, 1e-6)


@triton.jit
def strips(
    p_logits, p_temperature, p_tops, p_places, p_masses, N, V, STRIPS, BV: tl.constexpr,
    BS: tl.constexpr, GREEDY: tl.constexpr,
):  # fmt: skip
    """Of BV logits, strip by strip of BS: the largest, its first index, which is negative if one
    is no number, and the weight of all, relative to it. Grid (B * N, parts).
    """
    cell = tl.program_id(0).to(tl.int64)
    o_s = tl.program_id(1) * (BV // BS) + tl.arange(0, BV // BS)
    o_v = o_s[:, None] * BS + tl.arange(0, BS)[None, :]
    x = tl.load(p_logits + cell * V + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
    broken = tl.max((x != x).to(tl.int32), 1)
    x = tl.where(x != x, float("-inf"), x)
    top = tl.max(x, 1)
    place = tl.min(tl.where(x == top[:, None], o_v, 0x7FFFFFFF), 1)
    at = cell * STRIPS + o_s
    tl.store(p_tops + at, top, mask=o_s < STRIPS)
    tl.store(p_places + at, place | (broken << 31), mask=o_s < STRIPS)
    if not GREEDY:
        temperature = tl.load(p_temperature + cell // N)
        if temperature > 0.0:
            mass = tl.sum(weight_of(x, top[:, None], scale_of(temperature)), 1)
            tl.store(p_masses + at, mass, mask=o_s < STRIPS)


@triton.jit
def drawn(p_row, tops, shares, V, scale, point, BS: tl.constexpr, BP: tl.constexpr):
    """The token of all where the running weight passes `point` of it: its strip, then its place."""
    o_p = tl.arange(0, BP)
    goal = point * tl.sum(shares, 0)
    strip = reached(shares, goal, o_p)
    goal -= tl.sum(tl.where(o_p < strip, shares, 0.0), 0)
    goal /= tl.sum(tl.where(o_p == strip, shares, 0.0), 0)
    o_v = strip * BS + tl.arange(0, BS)
    x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
    top = tl.max(tl.where(o_p == strip, tops, float("-inf")), 0)
    weight = weight_of(x, top, scale).to(tl.float64)
    return reached(weight, goal * tl.sum(weight, 0), o_v)


@triton.jit
def best(tops, places):
    """The largest logit, its first index, and the logit again, but NaN where any is."""
    top = tl.max(tops, 0)
    token = tl.min(tl.where(tops == top, places & 0x7FFFFFFF, 0x7FFFFFFF), 0)
    return top, token, tl.where(tl.min(places, 0) < 0, float("nan"), top)


@triton.jit
def sample(
    p_logits, p_tops, p_places, p_masses, p_temperature, p_seed, p_position, p_top_p, p_top_k,
    p_min_p, p_lists, p_out, p_peak, N, V, STRIPS, BS: tl.constexpr,
    BP: tl.constexpr, BC: tl.constexpr, KEPT: tl.constexpr, SHIFT: tl.constexpr,
    GREEDY: tl.constexpr, TOP_P: tl.constexpr, TOP_K: tl.constexpr, MIN_P: tl.constexpr,
):  # fmt: skip
    """The choice after one node and its largest logit. Grid (B * N,)."""
    cell = tl.program_id(0).to(tl.int64)
    i_b = cell // N
    o_p = tl.arange(0, BP)
    m_p = o_p < STRIPS
    at = cell * STRIPS + o_p
    tops = tl.load(p_tops + at, mask=m_p, other=float("-inf"))
    top, token, peak = best(tops, tl.load(p_places + at, mask=m_p, other=0x7FFFFFFF))
    tl.store(p_peak + cell, peak)
    if not GREEDY:
        temperature = tl.load(p_temperature + i_b)
        if temperature > 0.0:
            scale = scale_of(temperature)
            masses = tl.load(p_masses + at, mask=m_p, other=0.0).to(tl.float64)
            shares = masses * weight_of(tops, top, scale)
            position = tl.load(p_position + cell).to(tl.int64)
            point = uniform(tl.load(p_seed + i_b), position + 1)
            top_p = tl.full([], 1.0, tl.float64)
            top_k = tl.full([], 0, tl.int32)
            min_p = tl.full([], 0.0, tl.float32)
            if TOP_P:
                top_p = tl.load(p_top_p + i_b).to(tl.float64)
            if TOP_K:
                top_k = tl.load(p_top_k + i_b).to(tl.int32)
                top_k = tl.where(top_k < V, top_k, 0)
            if MIN_P:
                min_p = tl.load(p_min_p + i_b)
            p_row = p_logits + cell * V
            if (top_p < 1.0) | (top_k > 0) | (min_p > 0.0):
                p_own = p_lists + cell * (BP + 2 * KEPT)
                token = filtered(
                    p_row, p_own, p_own + BP, p_own + BP + KEPT, tops, shares, point, V, top, scale,
                    top_p, top_k, min_p, BC, BS, BP, KEPT, SHIFT,
                )  # fmt: skip
            else:
                token = drawn(p_row, tops, shares, V, scale, point, BS, BP)
    tl.store(p_out + cell, token.to(tl.int64))

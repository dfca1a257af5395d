"""Attention within a window: a state for every tile of positions, then their sum.

Tiles begin at multiples of BT whatever the window is; those that no token sees have no program.
"""

import triton
import triton.language as tl


@triton.jit
def lowest_of(start, WINDOW: tl.constexpr):
    """The first position that any token sees: the first token's."""
    return tl.maximum(start - (WINDOW - 1), 0)


@triton.jit
def rows_of(p_base, slot, m_slot, i_head, HKV: tl.constexpr, D: tl.constexpr):
    """Rows [BT, D] of one key-value head at these slots; zeros where not `m_slot`."""
    p_row = p_base + (slot * HKV + i_head)[:, None] * D + tl.arange(0, D)[None, :]
    return tl.load(p_row, mask=m_slot[:, None], other=0.0)


@triton.jit
def attend(
    p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_table, s_table, N, PARTS, MB, scale,
    WINDOW: tl.constexpr, G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BR: tl.constexpr,
    BT: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """The state of one tile for BR rows (token, head of a group). Grid (MB * PARTS, HKV, B)."""
    i_part = tl.program_id(0) // MB
    i_head = tl.program_id(1)
    i_b = tl.program_id(2).to(tl.int64)
    start = tl.load(p_start + i_b).to(tl.int32)
    lowest = lowest_of(start, WINDOW)
    position = (lowest // BT + i_part) * BT + tl.arange(0, BT)
    known = (position >= lowest) & (position < start + N)
    if tl.min(position, 0) < start + N:
        page = tl.load(p_table + i_b * s_table + position // PAGE, mask=known, other=0)
        slot = page * PAGE + position % PAGE
        k = rows_of(p_k, slot, known, i_head, HKV, D)
        v = rows_of(p_v, slot, known, i_head, HKV, D)
        o_r = tl.program_id(0) % MB * BR + tl.arange(0, BR)
        token = o_r // G
        m_r = token < N
        row = (i_b * N + token) * (HKV * G) + i_head * G + o_r % G
        o_d = tl.arange(0, D)
        q = tl.load(p_q + row[:, None] * D + o_d[None, :], mask=m_r[:, None], other=0.0)
        last = tl.load(p_last + i_b * N + token, mask=m_r, other=-1)
        away = (start + token)[:, None] - position[None, :]
        near = (away < WINDOW) & (away > -WINDOW)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(near & (position[None, :] <= last[:, None]), s, float("-inf"))
        m = tl.max(s, 1)
        p = tl.exp2(s - tl.where(m == float("-inf"), 0.0, m)[:, None])
        acc = tl.dot(p.to(v.dtype), v, input_precision="ieee")
        cell = row * PARTS + i_part  # [BR]
        tl.store(p_acc + cell[:, None] * D + o_d[None, :], acc, mask=m_r[:, None])
        tl.store(p_ml + cell * 2, m, mask=m_r)
        tl.store(p_ml + cell * 2 + 1, tl.sum(p, 1), mask=m_r)


@triton.jit
def finish(
    p_acc, p_ml, p_start, p_out, N, PARTS, WINDOW: tl.constexpr, HQ: tl.constexpr, D: tl.constexpr,
    BD: tl.constexpr, BT: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """The sum of a row's states, BP at a time. Grid (D / BD, B * N * HQ)."""
    o_d = tl.program_id(0) * BD + tl.arange(0, BD)
    row = tl.program_id(1).to(tl.int64)
    start = tl.load(p_start + row // (N * HQ)).to(tl.int32)
    count = (start + N - 1) // BT - lowest_of(start, WINDOW) // BT + 1
    m = tl.full([1], float("-inf"), tl.float32)
    w = tl.zeros([1], tl.float32)
    acc = tl.zeros([BD], tl.float32)
    for first in range(0, count, BP):
        part = first + tl.arange(0, BP)
        m_part = part < count
        cell = row * PARTS + part
        m2 = tl.load(p_ml + cell * 2, mask=m_part, other=float("-inf"))
        w2 = tl.load(p_ml + cell * 2 + 1, mask=m_part, other=0.0)
        p_part = p_acc + cell[:, None] * D + o_d[None, :]
        acc2 = tl.load(p_part, mask=m_part[:, None], other=0.0)
        top = tl.maximum(m, tl.max(m2, 0))
        base = tl.where(top == float("-inf"), 0.0, top)
        fade = tl.exp2(m - base)
        share = tl.exp2(m2 - base)
        w = w * fade + tl.sum(w2 * share, 0)
        acc = acc * fade + tl.sum(acc2 * share[:, None], 0)
        m = top
    tl.store(p_out + row * D + o_d, (acc / w).to(p_out.dtype.element_ty))

"""Accepted keys and values move behind the prefix, in place, all layers in one launch."""

import triton
import triton.language as tl


@triton.jit
def slots(
    p_start, p_table, s_table, p_path, p_length, p_source, p_target, p_positions, T,
    BT: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Where the accepted nodes of row program_id(0) lie, and where they go."""
    i_b = tl.program_id(0).to(tl.int64)
    o_t = tl.arange(0, BT)
    m_t = o_t < T
    start = tl.load(p_start + i_b)
    length = tl.load(p_length + i_b)
    goal = start + o_t
    page = tl.load(p_table + i_b * s_table + goal // PAGE, mask=m_t, other=0)
    target = page * PAGE + goal % PAGE
    now = start + tl.load(p_path + i_b * T + o_t, mask=m_t, other=0)
    m_move = m_t & (o_t < length)
    page = tl.load(p_table + i_b * s_table + now // PAGE, mask=m_move, other=0)
    source = tl.where(m_move, page * PAGE + now % PAGE, target)
    tl.store(p_source + i_b * T + o_t, source, mask=m_t)
    tl.store(p_target + i_b * T + o_t, target, mask=m_t)
    tl.store(p_positions + i_b * T + o_t, goal, mask=m_t)


@triton.jit
def move(
    p_kv, s_part, p_source, p_target, T, WIDTH: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr
):
    """BC columns of one row in one layer's keys or values. Grid (layers * 2, columns, rows)."""
    i_b = tl.program_id(2)
    o_t = tl.arange(0, BT)
    o_c = tl.program_id(1) * BC + tl.arange(0, BC)
    m_t = o_t < T
    source = tl.load(p_source + i_b * T + o_t, mask=m_t, other=0)
    target = tl.load(p_target + i_b * T + o_t, mask=m_t, other=0)
    mask = (m_t & (source != target))[:, None] & (o_c < WIDTH)[None, :]
    p_part = p_kv + tl.program_id(0).to(tl.int64) * s_part + o_c[None, :]
    entry = tl.load(p_part + source[:, None] * WIDTH, mask=mask, other=0.0)
    tl.debug_barrier()  # sources may be targets: all are read before any is written
    tl.store(p_part + target[:, None] * WIDTH, entry, mask=mask)

"""Paged attention over latents, which are the keys of all heads and, but for their end, the values.

The arithmetic is a function of positions alone, cut as in ops/tree_attention: chunks of the prefix,
a tail that holds every position a tree could fill, and the finish in order. A latent is read once
for its score and its value: C = R + ROPE numbers, of which the last ROPE only score.
"""

import triton
import triton.language as tl

from ddtree.ops.tree_attention.kernel import first_tile, merge, soften, store_part


@triton.jit
def load_columns(p_base, row, m_row, C: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr):
    """Columns [SIZE, BR] of these rows of C numbers, from FIRST on; zeros where not `m_row`."""
    p_column = p_base + row[None, :] * C + FIRST + tl.arange(0, SIZE)[:, None]
    return tl.load(p_column, mask=m_row[None, :], other=0.0)


@triton.jit
def load_rows(p_base, slot, m_slot, C: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr):
    """Rows [BT, SIZE] of these slots, from number FIRST on; zeros where not `m_slot`."""
    p_row = p_base + slot[:, None] * C + FIRST + tl.arange(0, SIZE)[None, :]
    return tl.load(p_row, mask=m_slot[:, None], other=0.0)


@triton.jit
def absorb(
    m, w, acc, q, q_turn, p_latents, slot, m_slot, seen, scale, R: tl.constexpr, ROPE: tl.constexpr
):
    """One tile of slots into the state: q [R, BR], q_turn [ROPE, BR], seen [BT, BR]."""
    latent = load_rows(p_latents, slot, m_slot, R + ROPE, 0, R)
    turned = load_rows(p_latents, slot, m_slot, R + ROPE, R, ROPE)
    s = tl.dot(latent, q, input_precision="ieee")
    s = tl.dot(turned, q_turn, s, input_precision="ieee") * scale
    return soften(m, w, acc, s, latent, seen)


@triton.jit
def chunk_states(
    p_q, p_latents, p_acc, p_ml, p_last, p_table, N, PARTS, i_x, i_b, scale, MB,
    H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr,
    NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The chunk of this program, or all of them in order (WHOLE), for BR rows (token, head)."""
    o_r = (i_x % MB) * BR + tl.arange(0, BR)
    i_chunk = i_x // MB
    m_r = o_r < N * H
    row = i_b.to(tl.int64) * N * H + o_r
    last = tl.load(p_last + i_b * N + o_r // H, mask=m_r, other=-1)
    t0 = tl.maximum(last - REACH, 0) // BT  # [BR]
    if WHOLE:
        begin = 0
        end = tl.max(t0, 0)
    else:
        begin = first_tile(i_chunk, NEAR, FAR, TURN)
        end = tl.minimum(first_tile(i_chunk + 1, NEAR, FAR, TURN), tl.max(t0, 0))
    if begin < end:
        q = load_columns(p_q, row, m_r, R + ROPE, 0, R)
        q_turn = load_columns(p_q, row, m_r, R + ROPE, R, ROPE)
        m = tl.full([BR], float("-inf"), tl.float32)
        w = tl.zeros([BR], tl.float32)
        acc = tl.zeros([R, BR], tl.float32)
        whole_m, whole_w, whole_acc = m, w, acc
        for t in range(begin, end):
            position = t * BT + tl.arange(0, BT)
            slot = tl.load(p_table + position // PAGE) * PAGE + position % PAGE
            every = position >= 0
            if WHOLE:
                size = tl.where(t < TURN, NEAR, FAR)
                if t % size == 0:
                    whole_m, whole_w, whole_acc = merge(whole_m, whole_w, whole_acc, m, w, acc)
                    m = tl.full([BR], float("-inf"), tl.float32)
                    w = tl.zeros([BR], tl.float32)
                    acc = tl.zeros([R, BR], tl.float32)
            seen = (t < t0)[None, :] & every[:, None]
            m, w, acc = absorb(m, w, acc, q, q_turn, p_latents, slot, every, seen, scale, R, ROPE)
        if WHOLE:
            m, w, acc = merge(whole_m, whole_w, whole_acc, m, w, acc)
        store_part(p_acc, p_ml, row, m_r, 1 + i_chunk, PARTS, m, w, acc, R)


@triton.jit
def tail_state(
    p_q, p_latents, p_acc, p_ml, p_start, p_last, p_path, p_table, N, PARTS, i_x, i_b, scale,
    H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, TREE: tl.constexpr,
):  # fmt: skip
    """The tail of BR heads of a node (TREE: its own ancestors' slots), or of BR rows of a span."""
    if TREE:
        BLOCKS: tl.constexpr = (H + BR - 1) // BR
        i_n = i_x // BLOCKS
        head = (i_x % BLOCKS) * BR + tl.arange(0, BR)
        node = i_n + head * 0
        m_r = head < H
    else:
        i_n = 0
        o_r = i_x * BR + tl.arange(0, BR)
        node = o_r // H
        head = o_r % H
        m_r = node < N
    row = (i_b.to(tl.int64) * N + node) * H + head
    last = tl.load(p_last + i_b * N + node, mask=m_r, other=-1)
    start = tl.load(p_start + i_b).to(tl.int32)
    reach = tl.max(last, 0)
    t0 = tl.where(m_r, tl.maximum(last - REACH, 0) // BT, reach // BT)
    q = load_columns(p_q, row, m_r, R + ROPE, 0, R)
    q_turn = load_columns(p_q, row, m_r, R + ROPE, R, ROPE)
    m = tl.full([BR], float("-inf"), tl.float32)
    w = tl.zeros([BR], tl.float32)
    acc = tl.zeros([R, BR], tl.float32)
    for t in range(tl.min(t0, 0), reach // BT + 1):
        position = t * BT + tl.arange(0, BT)
        known = position <= reach
        old = known
        if TREE:
            old = known & (position < start)
        page = tl.load(p_table + position // PAGE, mask=old, other=0)
        slot = page * PAGE + position % PAGE
        if TREE:
            p_own = p_path + (i_b.to(tl.int64) * N + i_n) * (REACH + 1) + (position - start)
            own = tl.load(p_own, mask=known & (position >= start), other=0)
            slot = tl.where(old, slot, own)
        seen = (position[:, None] <= last[None, :]) & (t >= t0)[None, :]
        m, w, acc = absorb(m, w, acc, q, q_turn, p_latents, slot, known, seen, scale, R, ROPE)
    store_part(p_acc, p_ml, row, m_r, 0, PARTS, m, w, acc, R)


@triton.jit
def attend(
    p_q, p_latents, p_acc, p_ml, p_start, p_last, p_path, p_table, s_table, N, PARTS, MB, CHUNKS,
    scale, H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr,
    TAIL_BR: tl.constexpr, BT: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr,
    NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr,
    WHOLE: tl.constexpr, TREE: tl.constexpr,
):  # fmt: skip
    """States of all rows. Grid (MB * CHUNKS + tails, B)."""
    i_x = tl.program_id(0)
    i_b = tl.program_id(1)
    p_row = p_table + i_b.to(tl.int64) * s_table
    if i_x < MB * CHUNKS:
        chunk_states(
            p_q, p_latents, p_acc, p_ml, p_last, p_row, N, PARTS, i_x, i_b, scale, MB,
            H, R, ROPE, BR, BT, PAGE, REACH, NEAR, FAR, TURN, WHOLE,
        )  # fmt: skip
    else:
        tail_state(
            p_q, p_latents, p_acc, p_ml, p_start, p_last, p_path, p_row, N, PARTS,
            i_x - MB * CHUNKS, i_b, scale, H, R, ROPE, TAIL_BR, BT, PAGE, REACH, TREE,
        )  # fmt: skip

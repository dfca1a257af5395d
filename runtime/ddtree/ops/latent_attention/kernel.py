"""Paged attention over latents, which are the keys of all heads and, but for their end, the values.

The arithmetic is a function of positions alone. Of a token at position `last`, `edge` is the last
multiple of BT // 2 that is not above last - REACH:
  chunks  positions below `edge`, in tiles of BT, some tiles a chunk, online softmax inside one
  tail    positions edge .. last, one tile from `edge` on; holds all that a tree could fill
  then    chunks in order, and the tail: ops/state_sum
Bases are powers of two, as tree attention's: a state loses nothing when it is brought to another,
so a row's chunks have one sum whether a program takes one of them or all.
A latent has C = R + ROPE numbers, of which the last ROPE only score. A state of one tile alone
(`tile_state`) takes them some at a time, scores first and then values, so that little is held and
the code is short: a launch of a step begins with its code out of reach. Otherwise a tile is held.
"""

import triton
import triton.language as tl

from ddtree.ops.tree_attention.kernel import edge_of, first_tile, power


@triton.jit
def merge(m, w, acc, m2, w2, acc2):
    """Two softmax states as one. An empty one (m = -inf, w = 0, acc = 0) changes no bit."""
    top = tl.maximum(m, m2)
    base = tl.where(top == float("-inf"), 0.0, top)
    a = power(m - base)
    b = power(m2 - base)
    return top, w * a + w2 * b, acc * a + acc2 * b


@triton.jit
def soften(m, w, acc, s, v, seen):
    """Scores s [BT, BR] of one tile into the state: v [BT, D], seen [BT, BR], acc [D, BR]."""
    s = tl.where(seen, s, float("-inf"))
    top = tl.maximum(m, tl.ceil(tl.max(s, 0)))
    base = tl.where(top == float("-inf"), 0.0, top)
    fade = power(m - base)
    p = tl.exp2(s - base[None, :])
    w = w * fade + tl.sum(p, 0)
    acc = tl.dot(tl.trans(v), p.to(v.dtype), acc * fade[None, :], input_precision="ieee")
    return top, w, acc


@triton.jit
def store_part(p_acc, p_ml, row, m_row, part, PARTS, m, w, acc, D: tl.constexpr):
    """Write state `part` of these rows: acc [D, BR], m, w [BR]."""
    o_d = tl.arange(0, D)
    cell = row * PARTS + part  # [BR] int64
    tl.store(p_acc + cell[None, :] * D + o_d[:, None], acc, mask=m_row[None, :])
    tl.store(p_ml + cell * 2, m, mask=m_row)
    tl.store(p_ml + cell * 2 + 1, w, mask=m_row)


@triton.jit
def load_columns(p_base, row, m_row, C: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr):
    """Columns [SIZE, BR] of these rows of C numbers, from FIRST on; zeros where not `m_row`."""
    p_column = p_base + row[None, :] * C + FIRST + tl.arange(0, SIZE)[:, None]
    return tl.load(p_column, mask=m_row[None, :], other=0.0)


@triton.jit
def load_rows(p_base, slot, m_slot, C: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr):
    """Rows [BT, SIZE] of these slots, from number FIRST on; zeros where not `m_slot`."""
    p_row = p_base + slot.to(tl.int64)[:, None] * C + FIRST + tl.arange(0, SIZE)[None, :]
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
def tile_state(
    p_q, p_latents, p_acc, p_ml, row, m_r, part, PARTS, slot, m_slot, seen, scale,
    R: tl.constexpr, ROPE: tl.constexpr, BT: tl.constexpr, BR: tl.constexpr, BK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Write the state of one tile, seen [BT, BR]: the bits of `absorb` into an empty one."""
    o_k = tl.arange(0, BK)
    p_row = p_latents + slot.to(tl.int64)[:, None] * (R + ROPE) + o_k[None, :]
    p_column = p_q + row[None, :] * (R + ROPE) + o_k[:, None]
    s = tl.zeros([BT, BR], tl.float32)
    for i_k in tl.range(0, R + ROPE, BK, num_stages=STAGES):
        latent = tl.load(p_row + i_k, mask=m_slot[:, None], other=0.0)
        q = tl.load(p_column + i_k, mask=m_r[None, :], other=0.0)
        s = tl.dot(latent, q, s, input_precision="ieee")
    s = tl.where(seen, s * scale, float("-inf"))
    m = tl.ceil(tl.max(s, 0))
    p = tl.exp2(s - tl.where(m == float("-inf"), 0.0, m)[None, :])
    cell = row * PARTS + part  # [BR] int64
    tl.store(p_ml + cell * 2, m, mask=m_r)
    tl.store(p_ml + cell * 2 + 1, tl.sum(p, 0), mask=m_r)
    p = p.to(p_latents.dtype.element_ty)
    p_part = p_acc + cell[None, :] * R + o_k[:, None]
    for i_k in tl.range(0, R, BK, num_stages=STAGES):
        latent = tl.load(p_row + i_k, mask=m_slot[:, None], other=0.0)
        acc = tl.dot(tl.trans(latent), p, input_precision="ieee")
        tl.store(p_part + i_k, acc, mask=m_r[None, :])


@triton.jit
def slots_of(p_table, position, m_position, PAGE: tl.constexpr):
    """Slots of positions; of pages, as many numbers as a thread has of them, so 32 bits each."""
    page = tl.load(p_table + position // PAGE, mask=m_position, other=0).to(tl.int32)
    return page * PAGE + position % PAGE


@triton.jit
def chunk_states(
    p_q, p_latents, p_acc, p_ml, p_last, p_table, N, PARTS, i_x, i_b, scale, MB,
    H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr,
    TURN: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The chunk of this program, or all of them in order (WHOLE), for BR rows (token, head)."""
    o_r = (i_x % MB) * BR + tl.arange(0, BR)
    i_chunk = i_x // MB
    m_r = o_r < N * H
    row = i_b.to(tl.int64) * N * H + o_r
    last = tl.load(p_last + i_b * N + o_r // H, mask=m_r, other=-1)
    edge = edge_of(last, REACH, BT // 2)  # [BR]
    most = tl.max(edge, 0)
    if WHOLE:
        begin = 0
        end = (most + BT - 1) // BT
    else:
        begin = first_tile(i_chunk, NEAR, FAR, TURN)
        end = tl.minimum(first_tile(i_chunk + 1, NEAR, FAR, TURN), (most + BT - 1) // BT)
    if begin < end:
        q = load_columns(p_q, row, m_r, R + ROPE, 0, R)
        q_turn = load_columns(p_q, row, m_r, R + ROPE, R, ROPE)
        m = tl.full([BR], float("-inf"), tl.float32)
        w = tl.zeros([BR], tl.float32)
        acc = tl.zeros([R, BR], tl.float32)
        whole_m, whole_w, whole_acc = m, w, acc
        position = begin * BT + tl.arange(0, BT)
        slot = slots_of(p_table, position, position < most, PAGE)
        for t in range(begin, end):
            position = t * BT + tl.arange(0, BT)
            m_slot = position < most
            # a tile's slots are known a tile ahead: loads of latents then wait for no table
            ahead = slots_of(p_table, position + BT, position + BT < most, PAGE)
            size = tl.where(t < TURN, NEAR, FAR)
            if WHOLE:
                if t % size == 0:
                    whole_m, whole_w, whole_acc = merge(whole_m, whole_w, whole_acc, m, w, acc)
                    m = tl.full([BR], float("-inf"), tl.float32)
                    w = tl.zeros([BR], tl.float32)
                    acc = tl.zeros([R, BR], tl.float32)
            seen = position[:, None] < edge[None, :]
            m, w, acc = absorb(m, w, acc, q, q_turn, p_latents, slot, m_slot, seen, scale, R, ROPE)
            slot = ahead
        if WHOLE:
            m, w, acc = merge(whole_m, whole_w, whole_acc, m, w, acc)
        store_part(p_acc, p_ml, row, m_r, 1 + i_chunk, PARTS, m, w, acc, R)


@triton.jit
def near_state(
    p_q, p_latents, p_acc, p_ml, p_last, p_table, room, N, PARTS, i_x, i_b, scale, MB,
    H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """`chunk_states` of a chunk of one tile."""
    o_r = (i_x % MB) * BR + tl.arange(0, BR)
    i_chunk = i_x // MB
    m_r = o_r < N * H
    row = i_b.to(tl.int64) * N * H + o_r
    position = i_chunk * BT + tl.arange(0, BT)
    # any page that the table has room for: this load need not wait for the one of `last`
    slot = slots_of(p_table, position, position < room, PAGE)
    last = tl.load(p_last + i_b * N + o_r // H, mask=m_r, other=-1)
    edge = edge_of(last, REACH, BT // 2)  # [BR]
    most = tl.max(edge, 0)
    if i_chunk * BT < most:
        seen = position[:, None] < edge[None, :]
        tile_state(
            p_q, p_latents, p_acc, p_ml, row, m_r, 1 + i_chunk, PARTS, slot, position < most, seen,
            scale, R, ROPE, BT, BR, BK, STAGES,
        )  # fmt: skip


@triton.jit
def tail_state(
    p_q, p_latents, p_acc, p_ml, p_start, p_last, p_path, p_table, N, PARTS, i_x, i_b, scale,
    H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr, STAGES: tl.constexpr,
    TREE: tl.constexpr,
):  # fmt: skip
    """The tail of BR heads of a node (TREE: its own ancestors' slots), or of BR rows of a span."""
    if TREE:
        BLOCKS: tl.constexpr = (H + BR - 1) // BR
        i_n = i_x // BLOCKS
        head = (i_x % BLOCKS) * BR + tl.arange(0, BR)
        m_r = head < H
        row = (i_b.to(tl.int64) * N + i_n) * H + head
        last = tl.load(p_last + i_b * N + i_n)
        start = tl.load(p_start + i_b).to(tl.int32)
        position = edge_of(last, REACH, BT // 2) + tl.arange(0, BT)
        known = position <= last
        old = known & (position < start)
        p_own = p_path + (i_b.to(tl.int64) * N + i_n) * (REACH + 1) + (position - start)
        own = tl.load(p_own, mask=known & (position >= start), other=0).to(tl.int32)
        slot = tl.where(old, slots_of(p_table, position, old, PAGE), own)
        tile_state(
            p_q, p_latents, p_acc, p_ml, row, m_r, 0, PARTS, slot, known, known[:, None], scale,
            R, ROPE, BT, BR, BK, STAGES,
        )  # fmt: skip
    else:
        o_r = i_x * BR + tl.arange(0, BR)
        m_r = o_r < N * H
        row = i_b.to(tl.int64) * N * H + o_r
        last = tl.load(p_last + i_b * N + o_r // H, mask=m_r, other=-1)
        reach = tl.max(last, 0)
        most = edge_of(reach, REACH, BT // 2)
        edge = tl.where(m_r, edge_of(last, REACH, BT // 2), most)
        q = load_columns(p_q, row, m_r, R + ROPE, 0, R)
        q_turn = load_columns(p_q, row, m_r, R + ROPE, R, ROPE)
        m = tl.full([BR], float("-inf"), tl.float32)
        w = tl.zeros([BR], tl.float32)
        acc = tl.zeros([R, BR], tl.float32)
        for first in range(tl.min(edge, 0), most + 1, BT // 2):  # a row is in one of them
            position = first + tl.arange(0, BT)
            known = position <= reach
            slot = slots_of(p_table, position, known, PAGE)
            seen = (position[:, None] <= last[None, :]) & (first == edge)[None, :]
            m, w, acc = absorb(m, w, acc, q, q_turn, p_latents, slot, known, seen, scale, R, ROPE)
        store_part(p_acc, p_ml, row, m_r, 0, PARTS, m, w, acc, R)


@triton.jit
def attend(
    p_q, p_latents, p_acc, p_ml, p_start, p_last, p_path, p_table, s_table, room, N, PARTS, MB,
    CHUNKS, scale, H: tl.constexpr, R: tl.constexpr, ROPE: tl.constexpr, BR: tl.constexpr,
    TAIL_BR: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, PAGE: tl.constexpr,
    REACH: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr,
    WHOLE: tl.constexpr, LONG: tl.constexpr, STAGES: tl.constexpr, TREE: tl.constexpr,
):  # fmt: skip
    """States of all rows; `room` is of positions, LONG: some may lie in tiles from TURN on.

    Grid (MB * CHUNKS + tails, B).
    """
    i_x = tl.program_id(0)
    i_b = tl.program_id(1)
    p_row = p_table + i_b.to(tl.int64) * s_table
    ALONE: tl.constexpr = NEAR == 1 and not WHOLE
    if i_x >= MB * CHUNKS:
        tail_state(
            p_q, p_latents, p_acc, p_ml, p_start, p_last, p_path, p_row, N, PARTS,
            i_x - MB * CHUNKS, i_b, scale, H, R, ROPE, TAIL_BR, BT, BK, PAGE, REACH, STAGES,
            TREE,
        )  # fmt: skip
    elif ALONE and (not LONG or i_x < MB * TURN):
        near_state(
            p_q, p_latents, p_acc, p_ml, p_last, p_row, room, N, PARTS, i_x, i_b, scale, MB,
            H, R, ROPE, BR, BT, BK, PAGE, REACH, STAGES,
        )  # fmt: skip
    else:
        chunk_states(
            p_q, p_latents, p_acc, p_ml, p_last, p_row, N, PARTS, i_x, i_b, scale, MB,
            H, R, ROPE, BR, BT, PAGE, REACH, NEAR, FAR, TURN, WHOLE,
        )  # fmt: skip

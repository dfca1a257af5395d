"""Paged attention whose arithmetic is a function of positions alone.

The keys of a token at position `last` are taken in two ways, whatever the number of tokens, rows
or programs; with b = max(last - REACH, 0) rounded down to STEP:
  chunks  positions below b, BT a chunk; SUPER chunks are merged in order, then the supers
  tail    positions b .. last, which hold all that a tree could fill: one softmax over TAIL lanes
  finish  supers in order, then the tail
Products are keys x tokens, so that BT keys fill the matrix unit whatever the tokens are. A lane
that is not seen adds exact zeros, so it matters to no bit where in a tile a tail lies.
"""

import triton
import triton.language as tl

from ddtree.ops.overlap.kernel import start as begin


@triton.jit
def tail_begin(last, REACH: tl.constexpr, STEP: tl.constexpr):
    """The first position of the tail, b."""
    return tl.maximum(last - REACH, 0) // STEP * STEP


@triton.jit
def merge(m, w, acc, m2, w2, acc2):
    """Two softmax states as one. An empty one (m = -inf, w = 0, acc = 0) changes no bit."""
    top = tl.maximum(m, m2)
    base = tl.where(top == float("-inf"), 0.0, top)
    a = tl.exp2(m - base)
    b = tl.exp2(m2 - base)
    return top, w * a + w2 * b, acc * a + acc2 * b


@triton.jit
def state_of(q, k, v, seen, scale):
    """Softmax state of one tile: q [D, BR], k, v [BT, D], seen [BT, BR]; m, w [BR], acc [D, BR]."""
    s = tl.where(seen, tl.dot(k, q, input_precision="ieee") * scale, float("-inf"))
    m = tl.max(s, 0)
    p = tl.exp2(s - tl.where(m == float("-inf"), 0.0, m)[None, :])
    acc = tl.dot(tl.trans(v), p.to(v.dtype), input_precision="ieee")
    return m, tl.sum(p, 0), acc


@triton.jit
def load_tile(p_base, slot, m_slot, i_head, HKV: tl.constexpr, D: tl.constexpr):
    """Rows [BT, D] of one key-value head at these slots; zeros where not `m_slot`."""
    o_d = tl.arange(0, D)
    p_row = p_base + slot[:, None] * (HKV * D) + i_head * D + o_d[None, :]
    return tl.load(p_row, mask=m_slot[:, None], other=0.0)


@triton.jit
def store_part(p_acc, p_ml, row, m_row, part, PARTS, m, w, acc, D: tl.constexpr):
    """Write state `part` of these rows: acc [D, BR], m, w [BR]."""
    o_d = tl.arange(0, D)
    cell = row * PARTS + part  # [BR] int64
    tl.store(p_acc + cell[None, :] * D + o_d[:, None], acc, mask=m_row[None, :])
    tl.store(p_ml + cell * 2, m, mask=m_row)
    tl.store(p_ml + cell * 2 + 1, w, mask=m_row)


@triton.jit
def chunk_states(
    p_q, p_k, p_v, p_acc, p_ml, p_last, p_table, N, PARTS, i_x, i_head, i_b, scale, MB,
    G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, STEP: tl.constexpr, SUPER: tl.constexpr,
    UNIT: tl.constexpr,
):  # fmt: skip
    """BR rows of one head against one chunk (UNIT 1), one super (SUPER) or all chunks (0)."""
    i_m = i_x % MB
    i_unit = i_x // MB
    o_r = i_m * BR + tl.arange(0, BR)
    node = o_r // G
    m_r = node < N
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % G
    last = tl.load(p_last + i_b * N + node, mask=m_r, other=-1)
    bound = tail_begin(last, REACH, STEP)  # [BR]
    reach = tl.max(bound, 0)
    first = 0 if UNIT == 0 else i_unit * UNIT
    stop = (reach + BT - 1) // BT
    if UNIT > 0:
        stop = tl.minimum(stop, first + UNIT)
    if first < stop:
        o_d = tl.arange(0, D)
        o_t = tl.arange(0, BT)
        q = tl.load(p_q + row[None, :] * D + o_d[:, None], mask=m_r[None, :], other=0.0)
        m = tl.full([BR], float("-inf"), tl.float32)
        w = tl.zeros([BR], tl.float32)
        acc = tl.zeros([D, BR], tl.float32)
        whole_m, whole_w, whole_acc = m, w, acc
        for chunk in range(first, stop):
            position = chunk * BT + o_t
            known = position < reach
            page = tl.load(p_table + position // PAGE, mask=known, other=0)
            slot = page * PAGE + position % PAGE
            k = load_tile(p_k, slot, known, i_head, HKV, D)
            v = load_tile(p_v, slot, known, i_head, HKV, D)
            if UNIT == 0:
                if chunk % SUPER == 0:
                    whole_m, whole_w, whole_acc = merge(whole_m, whole_w, whole_acc, m, w, acc)
                    m = tl.full([BR], float("-inf"), tl.float32)
                    w = tl.zeros([BR], tl.float32)
                    acc = tl.zeros([D, BR], tl.float32)
            m2, w2, acc2 = state_of(q, k, v, position[:, None] < bound[None, :], scale)
            if UNIT == 1:
                m, w, acc = m2, w2, acc2
            else:
                m, w, acc = merge(m, w, acc, m2, w2, acc2)
        if UNIT == 0:
            m, w, acc = merge(whole_m, whole_w, whole_acc, m, w, acc)
        store_part(p_acc, p_ml, row, m_r, 1 + i_unit, PARTS, m, w, acc, D)


@triton.jit
def tree_tail(
    p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_path, p_table, N, PARTS, i_x, i_head, i_b, scale,
    G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BT: tl.constexpr, BR: tl.constexpr,
    TAIL: tl.constexpr, NODES: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """Tails of NODES nodes: TAIL lanes each, of which a node's heads see their own."""
    o_r = tl.arange(0, BR)
    node = i_x * NODES + o_r // G
    m_r = (o_r < NODES * G) & (node < N)
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % G
    o_d = tl.arange(0, D)
    q = tl.load(p_q + row[None, :] * D + o_d[:, None], mask=m_r[None, :], other=0.0)
    o_t = tl.arange(0, BT)
    owner = o_t // TAIL
    lane_node = i_x * NODES + owner
    m_lane = (owner < NODES) & (lane_node < N)
    last = tl.load(p_last + i_b * N + lane_node, mask=m_lane, other=-1)
    start = tl.load(p_start + i_b).to(tl.int32)
    position = tail_begin(last, REACH, STEP) + o_t % TAIL
    known = m_lane & (position <= last)
    old = position < start
    page = tl.load(p_table + position // PAGE, mask=known & old, other=0)
    p_own = p_path + (i_b.to(tl.int64) * N + lane_node) * (REACH + 1) + (position - start)
    own = tl.load(p_own, mask=known & (position >= start), other=0)
    slot = tl.where(old, page * PAGE + position % PAGE, own)
    k = load_tile(p_k, slot, known, i_head, HKV, D)
    v = load_tile(p_v, slot, known, i_head, HKV, D)
    seen = known[:, None] & (owner[:, None] == (o_r // G)[None, :])
    m, w, acc = state_of(q, k, v, seen, scale)
    store_part(p_acc, p_ml, row, m_r, 0, PARTS, m, w, acc, D)


@triton.jit
def span_tail(
    p_q, p_k, p_v, p_acc, p_ml, p_last, p_table, N, PARTS, i_x, i_head, i_b, scale,
    G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BT: tl.constexpr, BR: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Tails of BR rows of a span, whose tokens lie side by side: together at most BT positions."""
    o_r = i_x * BR + tl.arange(0, BR)
    node = o_r // G
    m_r = node < N
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % G
    last = tl.load(p_last + i_b * N + node, mask=m_r, other=-1)
    bound = tail_begin(last, REACH, STEP)
    o_d = tl.arange(0, D)
    q = tl.load(p_q + row[None, :] * D + o_d[:, None], mask=m_r[None, :], other=0.0)
    position = tl.min(tl.where(m_r, bound, 0x7FFFFFFF), 0) + tl.arange(0, BT)
    known = position <= tl.max(last, 0)
    page = tl.load(p_table + position // PAGE, mask=known, other=0)
    slot = page * PAGE + position % PAGE
    k = load_tile(p_k, slot, known, i_head, HKV, D)
    v = load_tile(p_v, slot, known, i_head, HKV, D)
    seen = (position[:, None] <= last[None, :]) & (position[:, None] >= bound[None, :])
    m, w, acc = state_of(q, k, v, seen, scale)
    store_part(p_acc, p_ml, row, m_r, 0, PARTS, m, w, acc, D)


@triton.jit
def attend(
    p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_path, p_table, s_table, N, PARTS, MB, UNITS,
    scale, G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BR: tl.constexpr,
    BT: tl.constexpr, TAIL: tl.constexpr, TAIL_BR: tl.constexpr, NODES: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, STEP: tl.constexpr, SUPER: tl.constexpr,
    UNIT: tl.constexpr, TREE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """States of all rows. Grid (MB * UNITS + tails, HKV, B)."""
    begin(OVERLAP)
    i_x = tl.program_id(0)
    i_head = tl.program_id(1)
    i_b = tl.program_id(2)
    p_row = p_table + i_b.to(tl.int64) * s_table
    if i_x < MB * UNITS:
        chunk_states(
            p_q, p_k, p_v, p_acc, p_ml, p_last, p_row, N, PARTS, i_x, i_head, i_b, scale, MB,
            G, HKV, D, BR, BT, PAGE, REACH, STEP, SUPER, UNIT,
        )  # fmt: skip
    elif TREE:
        tree_tail(
            p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_path, p_row, N, PARTS,
            i_x - MB * UNITS, i_head, i_b, scale,
            G, HKV, D, BT, TAIL_BR, TAIL, NODES, PAGE, REACH, STEP,
        )  # fmt: skip
    else:
        span_tail(
            p_q, p_k, p_v, p_acc, p_ml, p_last, p_row, N, PARTS,
            i_x - MB * UNITS, i_head, i_b, scale, G, HKV, D, BT, TAIL_BR, PAGE, REACH, STEP,
        )  # fmt: skip


@triton.jit
def load_part(p_acc, p_ml, cell, wanted, D: tl.constexpr):
    """One stored state as m, w [1], acc [D]; empty when not `wanted`."""
    o_one = tl.arange(0, 1)
    m = tl.load(p_ml + cell * 2 + o_one, mask=wanted & (o_one == 0), other=float("-inf"))
    w = tl.load(p_ml + cell * 2 + 1 + o_one, mask=wanted & (o_one == 0), other=0.0)
    acc = tl.load(p_acc + cell * D + tl.arange(0, D), mask=wanted, other=0.0)
    return m, w, acc


@triton.jit
def finish(
    p_acc, p_ml, p_last, p_out, PARTS, HQ: tl.constexpr, D: tl.constexpr, BT: tl.constexpr,
    REACH: tl.constexpr, STEP: tl.constexpr, SUPER: tl.constexpr, UNIT: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """Merge the states of one row in the order of positions. Grid (B * N * HQ,)."""
    begin(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    cell = row * PARTS
    last = tl.load(p_last + row // HQ)
    chunks = (tail_begin(last, REACH, STEP) + BT - 1) // BT
    empty_m = tl.full([1], float("-inf"), tl.float32)
    empty_w = tl.zeros([1], tl.float32)
    empty_acc = tl.zeros([D], tl.float32)
    m, w, acc = empty_m, empty_w, empty_acc
    tail_m, tail_w, tail_acc = load_part(p_acc, p_ml, cell, last >= 0, D)
    if UNIT == 1:
        for base in range(0, chunks, SUPER):
            super_m, super_w, super_acc = empty_m, empty_w, empty_acc
            for j in tl.static_range(SUPER):
                m2, w2, acc2 = load_part(p_acc, p_ml, cell + 1 + base + j, base + j < chunks, D)
                super_m, super_w, super_acc = merge(super_m, super_w, super_acc, m2, w2, acc2)
            m, w, acc = merge(m, w, acc, super_m, super_w, super_acc)
    else:
        units = tl.minimum(chunks, 1) if UNIT == 0 else (chunks + UNIT - 1) // UNIT
        for base in range(0, units, 4):
            for j in tl.static_range(4):
                m2, w2, acc2 = load_part(p_acc, p_ml, cell + 1 + base + j, base + j < units, D)
                m, w, acc = merge(m, w, acc, m2, w2, acc2)
    m, w, acc = merge(m, w, acc, tail_m, tail_w, tail_acc)
    tl.store(p_out + row * D + tl.arange(0, D), (acc / w).to(p_out.dtype.element_ty))


@triton.jit
def plan(
    p_start, p_table, s_table, p_words, s_words_b, s_words_n, p_write, p_last, p_path, N,
    W: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr, PATTERN: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """Slots and last visible position of one new token. PATTERN 0 tree, 1 causal, 2 all."""
    begin(OVERLAP)
    i_n = tl.program_id(0)
    i_b = tl.program_id(1)
    start = tl.load(p_start + i_b)
    p_row = p_table + i_b.to(tl.int64) * s_table
    cell = i_b.to(tl.int64) * N + i_n
    position = start + i_n
    tl.store(p_write + cell, tl.load(p_row + position // PAGE) * PAGE + position % PAGE)
    if PATTERN == 0:
        o_bit = tl.arange(0, 64)
        depth = 0
        for i_w in tl.static_range(W):
            word = tl.load(p_words + i_b.to(tl.int64) * s_words_b + i_n * s_words_n + i_w)
            node = i_w * 63 + o_bit
            bit = tl.where((o_bit < 63) & (node < N), (word >> o_bit) & 1, 0).to(tl.int32)
            rank = depth + tl.cumsum(bit, 0) - bit  # ancestors come in depth order
            known = (bit == 1) & (rank <= REACH)
            at = start + node
            page = tl.load(p_row + at // PAGE, mask=known, other=0)
            slot = page * PAGE + at % PAGE
            tl.store(p_path + cell * (REACH + 1) + rank, slot, mask=known)
            depth += tl.sum(bit, 0)
        tl.store(p_last + cell, (start + depth - 1).to(tl.int32))
    elif PATTERN == 1:
        tl.store(p_last + cell, position.to(tl.int32))
    else:
        tl.store(p_last + cell, (start + N - 1).to(tl.int32))

"""Paged attention whose arithmetic is a function of positions alone.

A key at position p lies in lane p % 64 of tile p // 64. The keys of a token at position `last`
are taken in three ways, whatever the number of tokens, rows or programs:
  chunks  below edge = max(last - 15, 0) // 16 * 16, some tiles a chunk, online softmax inside one
  tail    edge .. last, at most 31 keys in one tile; holds every position a tree could fill
  finish  chunks in order, then the tail
A row's keys, and so its maximum and its sum, are a matter of few threads, whatever the rows are.
"""

import triton
import triton.language as tl


@triton.jit
def chunks_below(tile, NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr):
    """How many chunks have a tile below `tile`: NEAR tiles each up to tile TURN, then FAR."""
    near = (tl.minimum(tile, TURN) + NEAR - 1) // NEAR
    return near + (tl.maximum(tile - TURN, 0) + FAR - 1) // FAR


@triton.jit
def first_tile(chunk, NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr):
    """The first tile of a chunk."""
    return tl.minimum(chunk, TURN // NEAR) * NEAR + tl.maximum(chunk - TURN // NEAR, 0) * FAR


@triton.jit
def merge(m, w, acc, m2, w2, acc2):
    """Two softmax states as one. An empty one (m = -inf, w = 0, acc = 0) changes no bit."""
    top = tl.maximum(m, m2)
    base = tl.where(top == float("-inf"), 0.0, top)
    a = tl.exp2(m - base)
    b = tl.exp2(m2 - base)
    return top, w * a + w2 * b, acc * a + acc2 * b


@triton.jit
def load_tile(p_base, slot, m_slot, i_head, HKV: tl.constexpr, D: tl.constexpr):
    """Rows [BT, D] of one key-value head at these slots; zeros where not `m_slot`."""
    o_d = tl.arange(0, D)
    p_row = p_base + slot[:, None] * (HKV * D) + i_head * D + o_d[None, :]
    return tl.load(p_row, mask=m_slot[:, None], other=0.0)


@triton.jit
def absorb(m, w, acc, q, k, v, seen, scale):
    """One tile into the state: q [BR, D], k, v [BT, D], seen [BR, BT], m [BR], acc [BR, D].

    w [BR, 16], all columns alike, is a product with ones: the matrix unit adds in the order of
    keys, a reduction in that of a layout.
    """
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    s = tl.where(seen, s, float("-inf"))
    top = tl.maximum(m, tl.max(s, 1))
    base = tl.where(top == float("-inf"), 0.0, top)
    fade = tl.exp2(m - base)[:, None]
    p = tl.exp2(s - base[:, None]).to(v.dtype)
    ones = tl.full([v.shape[0], 16], 1.0, v.dtype)
    w = tl.dot(p, ones, w * fade, input_precision="ieee")
    acc = tl.dot(p, v, acc * fade, input_precision="ieee")
    return top, w, acc


@triton.jit
def merge_rows(m, w, acc, m2, w2, acc2):
    """`merge` of states m [BR], w [BR, 16], acc [BR, D]."""
    top = tl.maximum(m, m2)
    base = tl.where(top == float("-inf"), 0.0, top)
    a = tl.exp2(m - base)[:, None]
    b = tl.exp2(m2 - base)[:, None]
    return top, w * a + w2 * b, acc * a + acc2 * b


@triton.jit
def nothing(BR: tl.constexpr, D: tl.constexpr):
    """The state of no key."""
    m = tl.full([BR], float("-inf"), tl.float32)
    return m, tl.zeros([BR, 16], tl.float32), tl.zeros([BR, D], tl.float32)


@triton.jit
def store_rows(p_acc, p_ml, row, m_row, part, PARTS, m, w, acc, D: tl.constexpr):
    """Write state `part` of these rows."""
    o_d = tl.arange(0, D)
    cell = row * PARTS + part  # [BR] int64
    tl.store(p_acc + cell[:, None] * D + o_d[None, :], acc, mask=m_row[:, None])
    tl.store(p_ml + cell * 2, m, mask=m_row)
    tl.store(p_ml + cell * 2 + 1, tl.max(w, 1), mask=m_row)


@triton.jit
def chunk_states(
    p_q, p_k, p_v, p_acc, p_ml, p_last, p_table, N, PARTS, i_x, i_head, i_b, scale,
    MB, G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, GRAIN: tl.constexpr,
    NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The chunk of this program, or all of them in order (WHOLE), for BR rows of one head."""
    i_m = i_x % MB
    i_chunk = i_x // MB
    o_r = i_m * BR + tl.arange(0, BR)
    node = o_r // G
    m_r = node < N
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % G
    last = tl.load(p_last + i_b * N + node, mask=m_r, other=-1)
    edge = tl.maximum(last - REACH, 0) // GRAIN * GRAIN  # [BR]
    reach = tl.max(edge, 0)
    if WHOLE:
        begin = 0
        end = (reach + BT - 1) // BT
    else:
        begin = first_tile(i_chunk, NEAR, FAR, TURN)
        end = tl.minimum(first_tile(i_chunk + 1, NEAR, FAR, TURN), (reach + BT - 1) // BT)
    if begin < end:
        o_d = tl.arange(0, D)
        q = tl.load(p_q + row[:, None] * D + o_d[None, :], mask=m_r[:, None], other=0.0)
        m, w, acc = nothing(BR, D)
        if WHOLE:
            whole_m, whole_w, whole_acc = nothing(BR, D)
        for t in range(begin, end):
            position = t * BT + tl.arange(0, BT)
            known = position < reach
            page = tl.load(p_table + position // PAGE, mask=known, other=0)
            slot = page * PAGE + position % PAGE
            k = load_tile(p_k, slot, known, i_head, HKV, D)
            v = load_tile(p_v, slot, known, i_head, HKV, D)
            if WHOLE:
                size = tl.where(t < TURN, NEAR, FAR)
                if t % size == 0:
                    whole_m, whole_w, whole_acc = merge_rows(whole_m, whole_w, whole_acc, m, w, acc)
                    m, w, acc = nothing(BR, D)
            m, w, acc = absorb(m, w, acc, q, k, v, position[None, :] < edge[:, None], scale)
        if WHOLE:
            m, w, acc = merge_rows(whole_m, whole_w, whole_acc, m, w, acc)
        store_rows(p_acc, p_ml, row, m_r, 1 + i_chunk, PARTS, m, w, acc, D)


@triton.jit
def tail_states(
    p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_path, p_table, N, PARTS, i_x, i_head, i_b, scale,
    G: tl.constexpr, HEADS: tl.constexpr, NODES: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, GRAIN: tl.constexpr, TREE: tl.constexpr,
):  # fmt: skip
    """The tails of NODES tokens, side by side in one tile: a row sees the keys of its own token.

    16 rows, HEADS a token; the keys of others weigh 0, which changes no bit of a sum.
    """
    TAIL: tl.constexpr = REACH + 1 + GRAIN
    o_r = tl.arange(0, 16)
    node = i_x * NODES + o_r // HEADS
    m_r = (o_r < NODES * HEADS) & (node < N) & (o_r % HEADS < G)
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % HEADS
    o_t = tl.arange(0, NODES * TAIL)
    i_n = i_x * NODES + o_t // TAIL
    last = tl.load(p_last + i_b * N + i_n, mask=i_n < N, other=-1)
    position = tl.maximum(last - REACH, 0) // GRAIN * GRAIN + o_t % TAIL
    known = position <= last
    old = known
    if TREE:
        start = tl.load(p_start + i_b).to(tl.int32)
        old = known & (position < start)
    page = tl.load(p_table + position // PAGE, mask=old, other=0)
    slot = page * PAGE + position % PAGE
    if TREE:
        p_own = p_path + (i_b.to(tl.int64) * N + i_n) * (REACH + 1) + (position - start)
        slot = tl.where(old, slot, tl.load(p_own, mask=known & (position >= start), other=0))
    o_d = tl.arange(0, D)
    q = tl.load(p_q + row[:, None] * D + o_d[None, :], mask=m_r[:, None], other=0.0)
    k = load_tile(p_k, slot, known, i_head, HKV, D)
    v = load_tile(p_v, slot, known, i_head, HKV, D)
    seen = known[None, :] & ((o_r // HEADS)[:, None] == (o_t // TAIL)[None, :])
    m, w, acc = nothing(16, D)
    m, w, acc = absorb(m, w, acc, q, k, v, seen, scale)
    store_rows(p_acc, p_ml, row, m_r, 0, PARTS, m, w, acc, D)


@triton.jit(do_not_specialize=["N", "PARTS", "MB", "CHUNKS"])
def attend(
    p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_path, p_table, s_table, N, PARTS, MB, CHUNKS,
    scale, G: tl.constexpr, HEADS: tl.constexpr, NODES: tl.constexpr, HKV: tl.constexpr,
    D: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr,
    GRAIN: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr,
    WHOLE: tl.constexpr, TREE: tl.constexpr,
):  # fmt: skip
    """States of all rows. Grid (MB * CHUNKS + N / NODES, HKV, B)."""
    i_x = tl.program_id(0)
    i_head = tl.program_id(1)
    i_b = tl.program_id(2)
    p_row = p_table + i_b.to(tl.int64) * s_table
    if i_x < MB * CHUNKS:
        chunk_states(
            p_q, p_k, p_v, p_acc, p_ml, p_last, p_row, N, PARTS, i_x, i_head, i_b, scale,
            MB, G, HKV, D, BR, BT, PAGE, REACH, GRAIN, NEAR, FAR, TURN, WHOLE,
        )  # fmt: skip
    else:
        tail_states(
            p_q, p_k, p_v, p_acc, p_ml, p_start, p_last, p_path, p_row, N, PARTS,
            i_x - MB * CHUNKS, i_head, i_b, scale, G, HEADS, NODES, HKV, D, PAGE, REACH, GRAIN,
            TREE,
        )  # fmt: skip


@triton.jit(do_not_specialize=["PARTS"])
def finish(
    p_acc, p_ml, p_last, p_out, PARTS, HQ: tl.constexpr, D: tl.constexpr, BT: tl.constexpr,
    REACH: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr,
    WHOLE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Merge the states of one row in the order of positions. Grid (B * N * HQ,).

    A row has chunks of the tiles that end by last - REACH; REACH may be negative.
    """
    row = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, D)
    last = tl.load(p_last + row // HQ)
    count = chunks_below(tl.maximum(last - REACH, 0) // BT, NEAR, FAR, TURN)
    if WHOLE:
        count = tl.minimum(count, 1)
    m = tl.full([1], float("-inf"), tl.float32)
    w = tl.zeros([1], tl.float32)
    acc = tl.zeros([D], tl.float32)
    for base in range(0, count, UNROLL):
        for j in tl.static_range(UNROLL):
            i_part = base + j
            m_part = (i_part + tl.arange(0, 1)) < count
            p_state = p_ml + (row * PARTS + 1 + i_part) * 2 + tl.arange(0, 1)
            m2 = tl.load(p_state, mask=m_part, other=float("-inf"))
            w2 = tl.load(p_state + 1, mask=m_part, other=0.0)
            p_part = p_acc + (row * PARTS + 1 + i_part) * D + o_d
            acc2 = tl.load(p_part, mask=i_part < count, other=0.0)
            m, w, acc = merge(m, w, acc, m2, w2, acc2)
    p_state = p_ml + row * PARTS * 2 + tl.arange(0, 1)
    acc2 = tl.load(p_acc + row * PARTS * D + o_d)
    m, w, acc = merge(m, w, acc, tl.load(p_state), tl.load(p_state + 1), acc2)
    tl.store(p_out + row * D + o_d, (acc / w).to(p_out.dtype.element_ty))


@triton.jit
def plan(
    p_start, p_table, s_table, p_words, s_words_b, s_words_n, p_write, p_last, p_path, N,
    W: tl.constexpr, PAGE: tl.constexpr, REACH: tl.constexpr, PATTERN: tl.constexpr,
):  # fmt: skip
    """Slots and last visible position of one new token. PATTERN 0 tree, 1 causal, 2 all."""
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

"""Paged attention whose arithmetic is a function of positions alone.

A key at position p lies in lane p % 64 of tile p // 64. The keys of a token at position `last`
are taken in two ways, whatever the number of tokens, rows or programs:
  tiles   below edge = max(last - 15, 0) // 16 * 16, some tiles a group
  tail    edge .. last, at most 31 keys in one tile; holds every position a tree could fill
A tile has a state: base m, weight w and sum acc of its keys. The base is a power of two, so that
a state is brought to another base exactly: what decides a bit is the order of additions, and that
is tiles in order within a group, then groups, then the tail. A program may thus take a tile, a
group, or everything, and `ops.state_sum` may bring all states to the largest base at once.
"""

import triton
import triton.language as tl

COLUMNS = tl.constexpr(8)  # of weights: the fewest of a product


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
def edge_of(last, REACH: tl.constexpr, GRAIN: tl.constexpr):
    """Where the tail of a token at `last` begins."""
    return tl.maximum(last - REACH, 0) // GRAIN * GRAIN


@triton.jit
def power(exponent):
    """2 ** exponent of whole exponents <= 0, exactly; 0 below 2 ** -126."""
    n = tl.maximum(exponent, -127.0).to(tl.int32)
    return ((n + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def load_tile(p_base, slot, m_slot, i_head, HKV: tl.constexpr, D: tl.constexpr):
    """Rows [BT, D] of one key-value head at these slots; zeros where not `m_slot`."""
    o_d = tl.arange(0, D)
    p_row = p_base + slot[:, None] * (HKV * D) + i_head * D + o_d[None, :]
    return tl.load(p_row, mask=m_slot[:, None], other=0.0)


@triton.jit
def state_of(q, k, v, seen, scale):
    """Of one tile: q [BR, D], k, v [BT, D], seen [BR, BT] -> m [BR], w [BR, 8], acc [BR, D].

    w, all columns alike, is a product with ones: the matrix unit adds in the order of keys, a
    reduction in that of a layout.
    """
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    s = tl.where(seen, s, float("-inf"))
    m = tl.ceil(tl.max(s, 1))
    base = tl.where(m == float("-inf"), 0.0, m)
    p = tl.exp2(s - base[:, None]).to(v.dtype)
    ones = tl.full([v.shape[0], COLUMNS], 1.0, v.dtype)
    w = tl.dot(p, ones, input_precision="ieee")
    return m, w, tl.dot(p, v, input_precision="ieee")


@triton.jit
def join(m, w, acc, m2, w2, acc2):
    """Two states as one. An empty one (m = -inf, w = 0, acc = 0) changes no bit."""
    top = tl.maximum(m, m2)
    base = tl.where(top == float("-inf"), 0.0, top)
    a = power(m - base)[:, None]
    b = power(m2 - base)[:, None]
    w = tl.fma(w, tl.broadcast_to(a, w.shape), w2 * b)
    return top, w, tl.fma(acc, tl.broadcast_to(a, acc.shape), acc2 * b)


@triton.jit
def nothing(BR: tl.constexpr, D: tl.constexpr):
    """The state of no key."""
    m = tl.full([BR], float("-inf"), tl.float32)
    return m, tl.zeros([BR, COLUMNS], tl.float32), tl.zeros([BR, D], tl.float32)


@triton.jit
def store_rows(p_acc, p_ml, row, m_row, part, PARTS, m, w, acc, D: tl.constexpr):
    """Write state `part` of these rows."""
    o_d = tl.arange(0, D)
    cell = row * PARTS + part  # [BR] int64
    tl.store(p_acc + cell[:, None] * D + o_d[None, :], acc, mask=m_row[:, None])
    tl.store(p_ml + cell * 2, m, mask=m_row)
    tl.store(p_ml + cell * 2 + 1, tl.max(w, 1), mask=m_row)


@triton.jit
def load_keys(
    p_k, p_v, page, position, reach, i_head, HKV: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr
):
    """Keys and values at these positions, which lie on these pages."""
    slot = page * PAGE + position % PAGE
    known = position < reach
    k = load_tile(p_k, slot, known, i_head, HKV, D)
    return k, load_tile(p_v, slot, known, i_head, HKV, D)


@triton.jit
def rows_at(p_q, p_last, first, N, i_head, i_b, G: tl.constexpr, HKV: tl.constexpr,
            D: tl.constexpr, BR: tl.constexpr):  # fmt: skip
    """BR rows (token, head) of one key-value head: tokens, rows of q, last positions, queries."""
    o_r = first + tl.arange(0, BR)
    node = o_r // G
    m_r = node < N
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % G
    last = tl.load(p_last + i_b * N + node, mask=m_r, other=-1)
    p_row = p_q + row[:, None] * D + tl.arange(0, D)[None, :]
    return node, row, last, tl.load(p_row, mask=m_r[:, None], other=0.0)


@triton.jit
def split_states(
    p_q, p_k, p_v, p_acc, p_ml, p_last, p_table, N, PARTS, CAP, first, i_part, i_head, i_b, scale,
    G: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr,
    PAGE: tl.constexpr, REACH: tl.constexpr, GRAIN: tl.constexpr, NEAR: tl.constexpr,
    FAR: tl.constexpr, TURN: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """State `i_part` of BR rows: of a tile, or of a group of them.

    A tile's page numbers are loaded before `last` is known, or a tile ahead: keys then wait for
    one load, not two. Near tiles of a group are four, some of them empty, unless the table is LONG.
    """
    begin = first_tile(i_part, NEAR, FAR, TURN) if LONG else i_part * NEAR
    position = begin * BT + tl.arange(0, BT)
    page = tl.load(p_table + position // PAGE, mask=position < CAP, other=0)
    node, row, last, q = rows_at(p_q, p_last, first, N, i_head, i_b, G, HKV, D, BR)
    edge = edge_of(last, REACH, GRAIN)  # [BR]
    reach = tl.max(edge, 0)
    if begin * BT < reach:
        if NEAR == 1 and not LONG:
            k, v = load_keys(p_k, p_v, page, position, reach, i_head, HKV, D, PAGE)
            m, w, acc = state_of(q, k, v, position[None, :] < edge[:, None], scale)
        else:
            end = begin + NEAR
            if LONG:
                end = tl.minimum(first_tile(i_part + 1, NEAR, FAR, TURN), tl.cdiv(reach, BT))
            m, w, acc = nothing(BR, D)
            for t in range(begin, end):
                position = t * BT + tl.arange(0, BT)
                k, v = load_keys(p_k, p_v, page, position, reach, i_head, HKV, D, PAGE)
                ahead = position + BT
                page = tl.load(p_table + ahead // PAGE, mask=ahead < CAP, other=0)
                m2, w2, acc2 = state_of(q, k, v, position[None, :] < edge[:, None], scale)
                m, w, acc = join(m, w, acc, m2, w2, acc2)
        store_rows(p_acc, p_ml, row, node < N, 1 + i_part, PARTS, m, w, acc, D)


@triton.jit
def tail_of(p_k, p_v, p_tail, i_n, m_n, o_t, i_head, HKV: tl.constexpr, D: tl.constexpr,
            TAIL: tl.constexpr):  # fmt: skip
    """Keys and values of tails, and which there are: lane o_t % TAIL of the token at i_n."""
    slot = tl.load(p_tail + i_n * TAIL + o_t % TAIL, mask=m_n, other=-1).to(tl.int64)
    known = slot >= 0
    k = load_tile(p_k, slot, known, i_head, HKV, D)
    return k, load_tile(p_v, slot, known, i_head, HKV, D), known


@triton.jit
def tail_states(
    p_q, p_k, p_v, p_acc, p_ml, p_tail, N, PARTS, i_x, i_head, i_b, scale, G: tl.constexpr,
    HEADS: tl.constexpr, NODES: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    """The tails of NODES tokens, side by side in one tile: a row sees the keys of its own token.

    16 rows, HEADS a token; the keys of others weigh 0, which changes no bit of a sum.
    """
    o_r = tl.arange(0, 16)
    node = i_x * NODES + o_r // HEADS
    m_r = (o_r < NODES * HEADS) & (node < N) & (o_r % HEADS < G)
    row = (i_b.to(tl.int64) * N + node) * (HKV * G) + i_head * G + o_r % HEADS
    o_t = tl.arange(0, NODES * TAIL)
    i_n = i_x * NODES + o_t // TAIL
    k, v, known = tail_of(p_k, p_v, p_tail, i_b * N + i_n, i_n < N, o_t, i_head, HKV, D, TAIL)
    p_row = p_q + row[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(p_row, mask=m_r[:, None], other=0.0)
    seen = known[None, :] & ((o_r // HEADS)[:, None] == (o_t // TAIL)[None, :])
    m, w, acc = state_of(q, k, v, seen, scale)
    store_rows(p_acc, p_ml, row, m_r, 0, PARTS, m, w, acc, D)


@triton.jit
def whole_rows(
    p_q, p_k, p_v, p_last, p_tail, p_table, p_out, N, first, i_head, i_b, scale, G: tl.constexpr,
    HKV: tl.constexpr, D: tl.constexpr, BR: tl.constexpr, BT: tl.constexpr, PAGE: tl.constexpr,
    REACH: tl.constexpr, GRAIN: tl.constexpr, TAIL: tl.constexpr, GROUP: tl.constexpr,
    FAR: tl.constexpr, TURN: tl.constexpr,
):  # fmt: skip
    """All keys of BR rows, two tails at a time, straight into the output."""
    node, row, last, q = rows_at(p_q, p_last, first, N, i_head, i_b, G, HKV, D, BR)
    edge = edge_of(last, REACH, GRAIN)
    reach = tl.max(edge, 0)
    m, w, acc = nothing(BR, D)
    all_m, all_w, all_acc = nothing(BR, D)
    for t in range(0, (reach + BT - 1) // BT):
        position = t * BT + tl.arange(0, BT)
        page = tl.load(p_table + position // PAGE, mask=position < reach, other=0)
        k, v = load_keys(p_k, p_v, page, position, reach, i_head, HKV, D, PAGE)
        if t % tl.where(t < TURN, GROUP, FAR) == 0:
            all_m, all_w, all_acc = join(all_m, all_w, all_acc, m, w, acc)
            m, w, acc = nothing(BR, D)
        m2, w2, acc2 = state_of(q, k, v, position[None, :] < edge[:, None], scale)
        m, w, acc = join(m, w, acc, m2, w2, acc2)
    m, w, acc = join(all_m, all_w, all_acc, m, w, acc)
    end = tl.minimum((first + BR - 1) // G + 1, N)
    o_t = tl.arange(0, 2 * TAIL)
    for n in range(first // G, end, 2):
        i_n = n + o_t // TAIL
        k, v, known = tail_of(p_k, p_v, p_tail, i_b * N + i_n, i_n < end, o_t, i_head, HKV, D, TAIL)
        m2, w2, acc2 = state_of(q, k, v, known[None, :] & (node[:, None] == i_n[None, :]), scale)
        m, w, acc = join(m, w, acc, m2, w2, acc2)
    p_row = p_out + row[:, None] * D + tl.arange(0, D)[None, :]
    result = acc / tl.where(node < N, tl.max(w, 1), 1.0)[:, None]
    tl.store(p_row, result.to(p_out.dtype.element_ty), mask=(node < N)[:, None])


@triton.jit(do_not_specialize=["N", "PARTS", "BLOCKS", "CHUNKS", "CAP"])
def attend(
    p_q, p_k, p_v, p_acc, p_ml, p_last, p_tail, p_table, s_table, p_out, N, PARTS, BLOCKS, CHUNKS,
    CAP, scale, G: tl.constexpr, HEADS: tl.constexpr, NODES: tl.constexpr, HKV: tl.constexpr,
    D: tl.constexpr, BR: tl.constexpr, REST: tl.constexpr, BT: tl.constexpr, PAGE: tl.constexpr,
    REACH: tl.constexpr, GRAIN: tl.constexpr, TAIL: tl.constexpr, GROUP: tl.constexpr,
    NEAR: tl.constexpr, FAR: tl.constexpr, TURN: tl.constexpr, LONG: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """States of all rows, or results (WHOLE). Grid (HKV * jobs, B), the longest jobs first.

    Jobs: BLOCKS of BR rows in every chunk; REST: the rows behind, 16 at most, in every chunk; and
    tails of NODES tokens. CAP: positions of the page table.
    """
    i_head = tl.program_id(0) % HKV
    i_x = tl.program_id(0) // HKV
    i_b = tl.program_id(1)
    p_row = p_table + i_b.to(tl.int64) * s_table
    i_rest = i_x - BLOCKS * CHUNKS
    if WHOLE:
        whole_rows(p_q, p_k, p_v, p_last, p_tail, p_row, p_out, N, i_x * BR, i_head, i_b, scale,
                   G, HKV, D, BR, BT, PAGE, REACH, GRAIN, TAIL, GROUP, FAR, TURN)  # fmt: skip
    elif i_rest < 0:
        split_states(p_q, p_k, p_v, p_acc, p_ml, p_last, p_row, N, PARTS, CAP, i_x % BLOCKS * BR,
                     i_x // BLOCKS, i_head, i_b, scale, G, HKV, D, BR, BT, PAGE, REACH, GRAIN,
                     NEAR, FAR, TURN, LONG)  # fmt: skip
    elif REST and i_rest < CHUNKS:
        split_states(p_q, p_k, p_v, p_acc, p_ml, p_last, p_row, N, PARTS, CAP, BLOCKS * BR,
                     i_rest, i_head, i_b, scale, G, HKV, D, 16, BT, PAGE, REACH, GRAIN,
                     NEAR, FAR, TURN, LONG)  # fmt: skip
    else:
        i_tail = i_rest - CHUNKS if REST else i_rest
        tail_states(p_q, p_k, p_v, p_acc, p_ml, p_tail, N, PARTS, i_tail, i_head, i_b, scale,
                    G, HEADS, NODES, HKV, D, TAIL)  # fmt: skip

"""One token for each row of logits, without sorting them and without a host read.

Every filter keeps the first tokens of one order: larger logit first, then smaller index. So what
is kept is a threshold (an order-preserving integer of a logit) and how many ties of it count.
"""

import triton
import triton.language as tl


@triton.jit
def order_of(x):
    """int32 in the order of the floats x."""
    x = tl.where(x == 0.0, 0.0, x)
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def float_of(order):
    """The float whose order it is."""
    return (order ^ ((order >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def above(p_row, V, tau, top, hot, BV: tl.constexpr):
    """How many logits lie above threshold tau, and their weight exp((x - top) / hot)."""
    count = tl.full([], 0, tl.int32)
    mass = tl.full([], 0.0, tl.float64)
    for base in range(0, V, BV):
        o_v = base + tl.arange(0, BV)
        x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
        over = (order_of(x) > tau) & (o_v < V)
        count += tl.sum(over.to(tl.int32), 0)
        mass += tl.sum(tl.where(over, tl.exp((x - top) / hot), 0.0), 0).to(tl.float64)
    return count, mass


@triton.jit
def least(p_row, V, low, high, limit, top, hot, BV: tl.constexpr, BY_MASS: tl.constexpr):
    """The smallest threshold in low .. high above which less than `limit` lies; high is one."""
    low = low.to(tl.int64)
    high = high.to(tl.int64)
    while low < high:
        middle = (low + high) >> 1
        count, mass = above(p_row, V, middle.to(tl.int32), top, hot, BV)
        fewer = (mass if BY_MASS else count) < limit
        high = tl.where(fewer, middle, high)
        low = tl.where(fewer, low, middle + 1)
    return low.to(tl.int32)


@triton.jit
def weight_at(tau, top, hot):
    """exp((x - top) / hot) of the logit whose order is tau."""
    return tl.exp((float_of(tau) - top) / hot).to(tl.float64)


@triton.jit
def floor_of(p_row, V, top, hot, min_p, BV: tl.constexpr):
    """The smallest order whose weight reaches min_p; how many reach it, and their weight."""
    floor = tl.full([], 0x7FFFFFFF, tl.int32)
    count = tl.full([], 0, tl.int32)
    mass = tl.full([], 0.0, tl.float64)
    for base in range(0, V, BV):
        o_v = base + tl.arange(0, BV)
        x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
        weight = tl.exp((x - top) / hot)
        over = (weight >= min_p) & (o_v < V)
        floor = tl.minimum(floor, tl.min(tl.where(over, order_of(x), 0x7FFFFFFF), 0))
        count += tl.sum(over.to(tl.int32), 0)
        mass += tl.sum(tl.where(over, weight, 0.0), 0).to(tl.float64)
    return floor, count, mass


@triton.jit
def limit_count(p_row, V, tau, top, hot, top_k, BV: tl.constexpr):
    """Threshold, ties and weight of the top_k most probable tokens."""
    tau = least(p_row, V, tau, order_of(top), top_k, top, hot, BV, False)
    count, mass = above(p_row, V, tau, top, hot, BV)
    ties = top_k - count
    return tau, ties, mass + ties * weight_at(tau, top, hot)


@triton.jit
def limit_mass(p_row, V, tau, ties, mass, top, hot, goal, BV: tl.constexpr):
    """Threshold, ties and weight of the fewest kept tokens whose weight reaches `goal`."""
    nucleus = least(p_row, V, tau, order_of(top), goal, top, hot, BV, True)
    _count, over = above(p_row, V, nucleus, top, hot, BV)
    weight = weight_at(nucleus, top, hot)
    wanted = tl.ceil((goal - over) / weight)
    most = tl.where(nucleus == tau, ties, 0x7FFFFFFF).to(tl.float64)
    ties = tl.maximum(tl.minimum(wanted, most), 1.0).to(tl.int32)
    return nucleus, ties, tl.minimum(over + ties * weight, mass)


@triton.jit
def pick(p_row, V, tau, ties, top, hot, point, BV: tl.constexpr):
    """The first kept token where the running weight passes `point`; else the last kept one."""
    token = tl.full([], -1, tl.int32)
    last = tl.full([], 0, tl.int32)
    seen = tl.full([], 0, tl.int32)
    running = tl.full([], 0.0, tl.float64)
    base = tl.full([], 0, tl.int32)
    while (base < V) & (token < 0):
        o_v = base + tl.arange(0, BV)
        x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
        order = order_of(x)
        tie = ((order == tau) & (o_v < V)).to(tl.int32)
        rank = seen + tl.cumsum(tie, 0) - tie
        kept = ((order > tau) & (o_v < V)) | ((tie == 1) & (rank < ties))
        weight = tl.where(kept, tl.exp((x - top) / hot), 0.0)
        passed = kept & (running + tl.cumsum(weight, 0).to(tl.float64) > point)
        first = tl.min(tl.where(passed, o_v, V), 0)
        token = tl.where(first < V, first, token)
        last = tl.maximum(last, tl.max(tl.where(kept, o_v, 0), 0))
        seen += tl.sum(tie, 0)
        running += tl.sum(weight, 0).to(tl.float64)
        base += BV
    return tl.where(token < 0, last, token)


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
def peaks(p_logits, p_tops, p_places, V, PARTS, BV: tl.constexpr):
    """The largest of BV logits and its first index, which is negative if one is no number.

    Grid (B * N, PARTS).
    """
    cell = tl.program_id(0).to(tl.int64)
    i_part = tl.program_id(1)
    o_v = i_part * BV + tl.arange(0, BV)
    x = tl.load(p_logits + cell * V + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
    broken = tl.max((x != x).to(tl.int32), 0)
    x = tl.where(x != x, float("-inf"), x)
    top = tl.max(x, 0)
    place = tl.min(tl.where(x == top, o_v, 0x7FFFFFFF), 0)
    tl.store(p_tops + cell * PARTS + i_part, top)
    tl.store(p_places + cell * PARTS + i_part, place | (broken << 31))


@triton.jit
def best(p_tops, p_places, cell, PARTS, BP: tl.constexpr):
    """The largest logit, its first index, and the logit again, but NaN where any is."""
    o_p = tl.arange(0, BP)
    m_p = o_p < PARTS
    tops = tl.load(p_tops + cell * PARTS + o_p, mask=m_p, other=float("-inf"))
    places = tl.load(p_places + cell * PARTS + o_p, mask=m_p, other=0x7FFFFFFF)
    top = tl.max(tops, 0)
    token = tl.min(tl.where(tops == top, places & 0x7FFFFFFF, 0x7FFFFFFF), 0)
    return top, token, tl.where(tl.min(places, 0) < 0, float("nan"), top)


@triton.jit
def sample(
    p_logits, p_tops, p_places, p_temperature, p_top_p, p_top_k, p_min_p, p_seed, p_position,
    p_out, p_peak, N, V, PARTS, BV: tl.constexpr, BP: tl.constexpr, GREEDY: tl.constexpr,
    TOP_P: tl.constexpr, TOP_K: tl.constexpr, MIN_P: tl.constexpr,
):  # fmt: skip
    """The choice after one node and its largest logit. Grid (B * N,)."""
    cell = tl.program_id(0).to(tl.int64)
    p_row = p_logits + cell * V
    i_b = cell // N
    top, token, peak = best(p_tops, p_places, cell, PARTS, BP)
    tl.store(p_peak + cell, peak)
    if not GREEDY:
        temperature = tl.load(p_temperature + i_b)
        if temperature > 0.0:
            hot = tl.maximum(temperature, 1e-6)
            min_p = tl.load(p_min_p + i_b) if MIN_P else 0.0
            tau, count, mass = floor_of(p_row, V, top, hot, min_p, BV)
            ties = tl.full([], 0x7FFFFFFF, tl.int32)
            if TOP_K:
                top_k = tl.load(p_top_k + i_b).to(tl.int32)
                if (top_k > 0) & (top_k < count):
                    tau, ties, mass = limit_count(p_row, V, tau, top, hot, top_k, BV)
            if TOP_P:
                top_p = tl.load(p_top_p + i_b)
                if top_p < 1.0:
                    goal = top_p.to(tl.float64) * mass
                    tau, ties, mass = limit_mass(p_row, V, tau, ties, mass, top, hot, goal, BV)
            position = tl.load(p_position + cell).to(tl.int64)
            point = uniform(tl.load(p_seed + i_b), position + 1) * mass
            token = pick(p_row, V, tau, ties, top, hot, point, BV)
    tl.store(p_out + cell, token.to(tl.int64))

"""What temperature, min_p, top_k and top_p leave of a row of logits, and a draw from it.

A filter keeps the first tokens of one order: larger logit first, then smaller index. So what is
kept is a threshold (a key: the upper bits of a logit as an integer of its order, all that differ)
and how many ties of it count. Largest logits and weights of strips bound the threshold from below.
What lies above the bound is listed; where the list is short, which is the rule, the rest happens in
registers. Else the row is read again and again until few logits are in question.
"""

import triton
import triton.language as tl

from ddtree.ops.weights.kernel import float_of, order_at, order_of, reached, weight_at, weight_of

LEAST = tl.constexpr(-0x7F800001)  # the order of -inf
MANY = tl.constexpr(0x7FFFFFFF)


@triton.jit
def bound_by_mass(shares, spare, top, scale, BS: tl.constexpr):
    """An order: what lies below it weighs no more than `spare`; -inf's where no such is found.

    A strip's tokens below a weight weigh no more than the strip, and no more than BS such weights.
    """
    low = tl.full([], -161, tl.int32)  # quarters of a power of two
    high = tl.full([], 0, tl.int32)
    while low < high:
        middle = (low + high + 1) >> 1
        most = tl.exp2(middle.to(tl.float32) * 0.25) * BS
        fits = tl.sum(tl.minimum(shares, most), 0) <= spare
        low = tl.where(fits, middle, low)
        high = tl.where(fits, high, middle - 1)
    return tl.where(low == -161, LEAST, order_at(low.to(tl.float32) * 0.25, top, scale))


@triton.jit
def bound_by_count(tops, top_k):
    """An order that at least top_k tokens reach, as so many strips have one; -inf's if too few."""
    order = order_of(tops) >> 16
    low = tl.full([], LEAST >> 16, tl.int32)
    high = tl.max(order, 0)
    while low < high:
        middle = (low + high + 1) >> 1
        fits = tl.sum((order >= middle).to(tl.int32), 0) >= top_k
        low = tl.where(fits, middle, low)
        high = tl.where(fits, high, middle - 1)
    return low << 16


@triton.jit
def gather(
    p_row, p_list, p_orders, p_tokens, tops, V, low, high, top, scale, min_p,
    BC: tl.constexpr, BS: tl.constexpr, BP: tl.constexpr, KEPT: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """Lists the tokens with keys in low .. high and weights from min_p, in their order; how many.

    It stops where there are more than KEPT.
    """
    wanted = ((order_of(tops) >> SHIFT) >= low).to(tl.int32)
    tl.debug_barrier()  # an earlier list is read by all before it is written over
    tl.store(p_list + tl.cumsum(wanted, 0) - wanted, tl.arange(0, BP), mask=wanted == 1)
    tl.debug_barrier()  # other threads read it than wrote it
    end = tl.sum(wanted, 0) * BS
    count = tl.full([], 0, tl.int32)
    base = tl.full([], 0, tl.int32)
    while (base < end) & (count <= KEPT):
        o_c = base + tl.arange(0, BC)
        token = tl.load(p_list + o_c // BS, mask=o_c < end, other=0) * BS + o_c % BS
        m_c = (o_c < end) & (token < V)
        x = tl.load(p_row + token, mask=m_c, other=float("-inf")).to(tl.float32)
        order = order_of(x)
        key = order >> SHIFT
        m_c = m_c & (key >= low) & (key <= high) & (weight_of(x, top, scale) >= min_p)
        at = count + tl.cumsum(m_c.to(tl.int32), 0) - 1
        tl.store(p_orders + at, order, mask=m_c & (at < KEPT))
        tl.store(p_tokens + at, token, mask=m_c & (at < KEPT))
        count += tl.sum(m_c.to(tl.int32), 0)
        base += BC
    tl.debug_barrier()
    return count


@triton.jit
def listed(p_orders, count, KEPT: tl.constexpr, SHIFT: tl.constexpr):
    """Values and keys of a list; behind its end the least there is."""
    o_k = tl.arange(0, KEPT)
    order = tl.load(p_orders + o_k, mask=o_k < count, other=-0x80000000)
    return float_of(order), tl.where(o_k < count, order >> SHIFT, -0x80000000)


@triton.jit
def least(key, amount, low, high, beyond, limit):
    """The smallest key in low .. high above which `beyond` and the amounts are less than `limit`.

    High itself is one.
    """
    low = low.to(tl.int64)
    high = high.to(tl.int64)
    while low < high:
        middle = (low + high) >> 1
        over = tl.sum(tl.where(key > middle.to(tl.int32), amount, 0.0), 0)
        fewer = beyond + over < limit
        high = tl.where(fewer, middle, high)
        low = tl.where(fewer, low, middle + 1)
    return low.to(tl.int32)


@triton.jit
def ties_to(goal, over, weight):
    """How many of `weight` each make `over` reach the goal: one at least."""
    return tl.maximum(tl.ceil((goal - over) / weight), 1.0)


@triton.jit
def few(
    p_orders, p_tokens, count, point, total, high, top, scale, top_p, top_k, KEPT: tl.constexpr,
    SHIFT: tl.constexpr,
):  # fmt: skip
    """A draw from a list of all tokens that filters may leave. total: top_p's, 0 is the list's."""
    x, key = listed(p_orders, count, KEPT, SHIFT)
    o_k = tl.arange(0, KEPT)
    weight = tl.where(o_k < count, weight_of(x, top, scale), 0.0).to(tl.float64)
    low = tl.min(tl.where(o_k < count, key, high), 0)
    if (top_k > 0) & (top_k < count):
        low = least(key, (o_k < count).to(tl.float64), low, high, 0.0, top_k)
        over = key > low
        tie = (key == low).to(tl.int32)
        spare = top_k - tl.sum(over.to(tl.int32), 0)
        weight = tl.where(over | ((tie == 1) & (tl.cumsum(tie, 0) <= spare)), weight, 0.0)
    if top_p < 1.0:
        goal = top_p * tl.where(total > 0.0, total, tl.sum(weight, 0))
        low = least(key, weight, low, high, 0.0, goal)
        over = tl.sum(tl.where(key > low, weight, 0.0), 0)
        spare = ties_to(goal, over, tl.max(tl.where(key == low, weight, 0.0), 0))
        tie = (key == low).to(tl.int32)
        weight = tl.where((key > low) | ((tie == 1) & (tl.cumsum(tie, 0) <= spare)), weight, 0.0)
    place = reached(weight, point * tl.sum(weight, 0), o_k)
    return tl.load(p_tokens + place)


@triton.jit
def above(p_row, V, tau, top, scale, BC: tl.constexpr, SHIFT: tl.constexpr):
    """How many logits lie above key tau, and their weight."""
    count = tl.zeros([BC], tl.int32)
    mass = tl.zeros([BC], tl.float32)
    for base in range(0, V, BC):
        o_v = base + tl.arange(0, BC)
        x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
        over = ((order_of(x) >> SHIFT) > tau) & (o_v < V)
        count += over.to(tl.int32)
        mass += tl.where(over, weight_of(x, top, scale), 0.0)
    return tl.sum(count, 0), tl.sum(mass.to(tl.float64), 0)


@triton.jit
def floor_of(p_row, V, top, scale, min_p, BC: tl.constexpr, SHIFT: tl.constexpr):
    """The smallest key whose weight reaches min_p; how many logits reach it, and their weight."""
    floor = tl.full([BC], MANY, tl.int32)
    count = tl.zeros([BC], tl.int32)
    mass = tl.zeros([BC], tl.float32)
    for base in range(0, V, BC):
        o_v = base + tl.arange(0, BC)
        x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
        weight = weight_of(x, top, scale)
        over = (weight >= min_p) & (o_v < V)
        floor = tl.where(over, tl.minimum(floor, order_of(x) >> SHIFT), floor)
        count += over.to(tl.int32)
        mass += tl.where(over, weight, 0.0)
    return tl.min(floor, 0), tl.sum(count, 0), tl.sum(mass.to(tl.float64), 0)


@triton.jit
def search(
    p_row, p_list, p_orders, p_tokens, tops, V, low, high, by_mass, limit, top, scale,
    BC: tl.constexpr, BS: tl.constexpr, BP: tl.constexpr, KEPT: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """`least` of a row, by weight or number; how many logits lie above it, and their weight."""
    low = low.to(tl.int64)
    high = high.to(tl.int64)
    upward = V.to(tl.int32)  # from low on
    count = tl.full([], 0, tl.int32)  # above high
    mass = tl.full([], 0.0, tl.float64)
    while (low < high) & (upward - count > KEPT):
        middle = (low + high) >> 1
        more, heavier = above(p_row, V, middle.to(tl.int32), top, scale, BC, SHIFT)
        fewer = tl.where(by_mass, heavier, more.to(tl.float64)) < limit
        high = tl.where(fewer, middle, high)
        count = tl.where(fewer, more, count)
        mass = tl.where(fewer, heavier, mass)
        low = tl.where(fewer, low, middle + 1)
        upward = tl.where(fewer, upward, more)
    found = gather(
        p_row, p_list, p_orders, p_tokens, tops, V, low.to(tl.int32), high.to(tl.int32), top, scale,
        0.0, BC, BS, BP, KEPT, SHIFT,
    )  # fmt: skip
    x, key = listed(p_orders, found, KEPT, SHIFT)
    weight = tl.where(tl.arange(0, KEPT) < found, weight_of(x, top, scale), 0.0).to(tl.float64)
    amount = tl.where(by_mass, weight, 1.0)  # behind the list's end no key lies above another
    tau = least(key, amount, low, high, tl.where(by_mass, mass, count.to(tl.float64)), limit)
    count += tl.sum((key > tau).to(tl.int32), 0)
    return tau, count, mass + tl.sum(tl.where(key > tau, weight, 0.0), 0)


@triton.jit
def walk(p_row, V, tau, ties, top, scale, goal, BC: tl.constexpr, SHIFT: tl.constexpr):
    """The first kept token where the running weight passes `goal`; else the last kept one."""
    token = tl.full([], -1, tl.int32)
    last = tl.full([], 0, tl.int32)
    seen = tl.full([], 0, tl.int32)
    running = tl.full([], 0.0, tl.float64)
    base = tl.full([], 0, tl.int32)
    while (base < V) & (token < 0):
        o_v = base + tl.arange(0, BC)
        x = tl.load(p_row + o_v, mask=o_v < V, other=float("-inf")).to(tl.float32)
        key = order_of(x) >> SHIFT
        tie = ((key == tau) & (o_v < V)).to(tl.int32)
        kept = ((key > tau) & (o_v < V)) | ((tie == 1) & (seen + tl.cumsum(tie, 0) <= ties))
        weight = tl.where(kept, weight_of(x, top, scale), 0.0).to(tl.float64)
        passed = (weight > 0.0) & (running + tl.cumsum(weight, 0) > goal)
        first = tl.min(tl.where(passed, o_v, MANY), 0)
        token = tl.where(first < MANY, first, token)
        last = tl.maximum(last, tl.max(tl.where(weight > 0.0, o_v, 0), 0))
        seen += tl.sum(tie, 0)
        running += tl.sum(weight, 0)
        base += BC
    return tl.where(token < 0, last, token)


@triton.jit
def many(
    p_row, p_list, p_orders, p_tokens, tops, V, point, total, low, high, top, scale, top_p, top_k,
    min_p, BC: tl.constexpr, BS: tl.constexpr, BP: tl.constexpr, KEPT: tl.constexpr,
    SHIFT: tl.constexpr,
):  # fmt: skip
    """A draw from a row of which filters may leave more than a list holds."""
    tau = tl.full([], LEAST, tl.int32) >> SHIFT
    ties = tl.full([], MANY, tl.int32)
    count = V.to(tl.int32)
    mass = total
    if min_p > 0.0:
        tau, count, mass = floor_of(p_row, V, top, scale, min_p, BC, SHIFT)
    for stage in range(2):
        by_mass = stage == 1
        if tl.where(by_mass, top_p < 1.0, (top_k > 0) & (top_k < count)):
            limit = tl.where(by_mass, top_p * mass, top_k.to(tl.float64))
            found, over, heavier = search(
                p_row, p_list, p_orders, p_tokens, tops, V, tl.maximum(tau, low), high, by_mass,
                limit, top, scale, BC, BS, BP, KEPT, SHIFT,
            )  # fmt: skip
            weight = weight_at(found, top, scale, SHIFT)
            wanted = tl.where(by_mass, ties_to(limit, heavier, weight), limit - over)
            most = tl.where(found == tau, ties, MANY).to(tl.float64)
            ties = tl.minimum(wanted, most).to(tl.int32)
            mass = tl.minimum(heavier + ties * weight, mass)
            tau = found
    return walk(p_row, V, tau, ties, top, scale, point * mass, BC, SHIFT)


@triton.jit
def filtered(
    p_row, p_list, p_orders, p_tokens, tops, shares, point, V, top, scale, top_p, top_k, min_p,
    BC: tl.constexpr, BS: tl.constexpr, BP: tl.constexpr, KEPT: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """A draw from what the filters leave of strips with these largest logits and weights.

    The lists p_list [BP], p_orders [KEPT] and p_tokens [KEPT] are this row's own.
    """
    total = tl.sum(shares, 0)
    high = order_of(top) >> SHIFT
    low = tl.full([], LEAST, tl.int32)
    if min_p > 0.0:
        low = order_at(tl.log2(min_p), top, scale)
    if top_k > 0:
        low = tl.maximum(low, bound_by_count(tops, top_k))
    if (top_k == 0) & (min_p <= 0.0):  # top_p is of all: what it leaves weighs no less than top_p
        spare = (total * (1.0 - top_p) * 0.999).to(tl.float32)
        low = bound_by_mass(shares.to(tl.float32), spare, top, scale, BS)
    low = low >> SHIFT
    count = gather(
        p_row, p_list, p_orders, p_tokens, tops, V, low, high, top, scale, min_p,
        BC, BS, BP, KEPT, SHIFT,
    )  # fmt: skip
    if count <= KEPT:
        whole = tl.where((top_k == 0) & (min_p <= 0.0), total, 0.0)
        token = few(
            p_orders, p_tokens, count, point, whole, high, top, scale, top_p, top_k, KEPT, SHIFT
        )
    else:
        token = many(
            p_row, p_list, p_orders, p_tokens, tops, V, point, total, low, high, top, scale, top_p,
            top_k, min_p, BC, BS, BP, KEPT, SHIFT,
        )  # fmt: skip
    return token

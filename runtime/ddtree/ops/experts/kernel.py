"""Who goes where in a mixture, its products, and the sum of a token's experts.

Weights x tokens, as in ops/linear: a program multiplies BN weight rows of one expert by BM of its
tokens. K is walked from 0 in one order, so a token's sum does not know who sits in the other
columns.
"""

import triton
import triton.language as tl


@triton.jit
def arrange(
    p_chosen, p_owner, p_pairs, P, T, EXPERTS: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr,
    BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Tiles of BP pairs: each is put behind the pairs of its expert that come before it.

    No program waits for another: each counts all pairs. BE is more than EXPERTS, so that nobody's
    pairs have a place in the count, and no tile.
    """
    o_p = tl.arange(0, BP)
    o_c = tl.arange(0, BC)
    o_e = tl.arange(0, BE)
    pair = tl.program_id(0) * BP + o_p
    expert = tl.load(p_chosen + pair, mask=pair < P, other=EXPERTS).to(tl.int32)
    count = tl.zeros([BE], tl.int32)
    rank = tl.zeros([BP], tl.int32)  # among its expert's
    for base in range(0, P, BC):
        other = base + o_c
        theirs = tl.load(p_chosen + other, mask=other < P, other=EXPERTS).to(tl.int32)
        count += tl.histogram(theirs, BE)
        before = (theirs[None, :] == expert[:, None]) & (other[None, :] < pair[:, None])
        rank += tl.sum(before.to(tl.int32), 1)
    needed = tl.where(o_e < EXPERTS, (count + BM - 1) // BM, 0)
    last = tl.cumsum(needed, 0)  # one past an expert's last tile
    i_tile = tl.gather(last - needed, expert, 0) + rank // BM
    own = (pair < P) & (expert < EXPERTS)
    slot = rank % BM
    tl.store(p_owner + i_tile, expert, mask=own & (slot == 0))
    tl.store(p_pairs + i_tile * BM + slot, pair, mask=own)
    o_m = tl.arange(0, BM)
    final = own & (rank + 1 == tl.gather(count, expert, 0))
    empty = final[:, None] & (o_m[None, :] > slot[:, None])
    tl.store(p_pairs + i_tile[:, None] * BM + o_m[None, :], -1, mask=empty)
    surplus = (pair >= tl.sum(needed, 0)) & (pair < T)
    tl.store(p_owner + pair, EXPERTS, mask=surplus)


@triton.jit
def tile(p_owner, p_pairs, i_tile, BM: tl.constexpr, LONE: tl.constexpr):
    """Expert and pairs [BM] of a tile, -1 where there is none. LONE: a tile is one pair's."""
    expert = tl.load(p_owner + i_tile).to(tl.int32)
    return expert, pairs(p_pairs, i_tile, tl.arange(0, BM), BM, LONE)


@triton.jit
def pairs(p_pairs, i_tile, o_m, BM: tl.constexpr, LONE: tl.constexpr):
    """Those of a tile at o_m."""
    return tl.where(o_m == 0, i_tile, -1) if LONE else tl.load(p_pairs + i_tile * BM + o_m)


@triton.jit
def multiply(
    p_x, p_w, p_y, p_owner, p_pairs, N, TOP: tl.constexpr, K: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, EXPERTS: tl.constexpr, GATED: tl.constexpr,
    LONE: tl.constexpr,
):  # fmt: skip
    """One tile of pairs (token, expert) by BN of N outputs; rows of y are pairs.

    GATED reads the tokens' own rows of x and writes silu(gate) * up; else rows of x are pairs.
    """
    expert, pair = tile(p_owner, p_pairs, tl.program_id(0), BM, LONE)
    if expert < EXPERTS:
        m_pair = pair >= 0
        o_x = pair // TOP if GATED else pair
        o_n = tl.program_id(1) * BN + tl.arange(0, BN)
        m_n = o_n < N
        PIECES: tl.constexpr = 2 if GATED else 1
        p_w += expert.to(tl.int64) * (PIECES * N) * K
        total = tl.zeros([BN, BM], tl.float32)
        up = tl.zeros([BN, BM], tl.float32)
        for i_k in range(0, K, BK):
            o_k = i_k + tl.arange(0, BK)
            m_k = o_k < K
            m_w = m_n[:, None] & m_k[None, :]
            p_rows = p_x + o_x[:, None].to(tl.int64) * K + o_k[None, :]
            x = tl.trans(tl.load(p_rows, mask=m_pair[:, None] & m_k[None, :], other=0.0))
            p_gate = p_w + o_n[:, None].to(tl.int64) * K + o_k[None, :]
            w = tl.load(p_gate, mask=m_w, other=0.0)
            total = tl.dot(w, x, total, input_precision="ieee")
            if GATED:
                w_up = tl.load(p_gate + N * K, mask=m_w, other=0.0)
                up = tl.dot(w_up, x, up, input_precision="ieee")
        if GATED:
            total = total / (1.0 + tl.exp(-total)) * up
        p_out = p_y + pair[None, :].to(tl.int64) * N + o_n[:, None]
        tl.store(p_out, total.to(p_y.dtype.element_ty), mask=m_n[:, None] & m_pair[None, :])


@triton.jit
def combine(
    p_part, p_weight, p_residual, p_inner, p_down, p_y, M, N, TOP: tl.constexpr, K: tl.constexpr,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y = residual + a token's parts, best expert first, times their weights + down of inner.

    Grid (tiles of N, tiles of M). A part without weight may be nobody's, and then was never
    written. K: features of inner, the shared expert's; 0 without one.
    """
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    o_m = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    m_n = o_n < N
    m_m = o_m < M
    mask = m_n[:, None] & m_m[None, :]
    at = o_m[None, :] * N + o_n[:, None]
    total = tl.load(p_residual + at, mask=mask, other=0.0).to(tl.float32)
    for i_k in tl.static_range(TOP):
        weight = tl.load(p_weight + o_m * TOP + i_k, mask=m_m, other=0.0)[None, :]
        p_own = p_part + (o_m[None, :] * TOP + i_k) * N + o_n[:, None]
        total += weight * tl.load(p_own, mask=mask & (weight != 0), other=0.0)
    if K > 0:
        shared = tl.zeros([BN, BM], tl.float32)
        for first in range(0, K, BK):
            o_k = first + tl.arange(0, BK)
            p_rows = p_down + o_n[:, None].to(tl.int64) * K + o_k[None, :]
            w = tl.load(p_rows, mask=m_n[:, None] & (o_k < K)[None, :], other=0.0)
            p_x = p_inner + o_m[:, None] * K + o_k[None, :]
            x = tl.load(p_x, mask=m_m[:, None] & (o_k < K)[None, :], other=0.0)
            shared = tl.dot(w, tl.trans(x), shared, input_precision="ieee")
        total += shared
    tl.store(p_y + at, total.to(p_y.dtype.element_ty), mask=mask)

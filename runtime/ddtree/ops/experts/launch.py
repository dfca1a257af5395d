"""Which token goes to which program, and the three launches of a mixture."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.ops.experts import kernel

BM, BN, BK = 16, 64, 64  # pairs, outputs, features a tile; not tuned on a device yet
WIDE = 256  # outputs that a program of `combine` sums


@dataclass(frozen=True)
class Tiles:
    """Pairs (token, slot) sorted by expert and cut into tiles of one expert each.

    There are as many tiles as any routing could need; the surplus ones belong to expert E.
    """

    order: torch.Tensor  # [M K] int64, where each sorted pair came from
    owner: torch.Tensor  # [T] int64, expert of a tile
    begin: torch.Tensor  # [T] int64, first sorted pair
    end: torch.Tensor  # [T] int64, one past the last pair of this tile's expert


def tiles(chosen: torch.Tensor, experts: int) -> Tiles:
    """chosen [M, K] int64; no shape depends on its values."""
    pairs = chosen.flatten()
    order = pairs.argsort(stable=True)
    all_experts = torch.arange(experts, device=pairs.device)
    ends = torch.searchsorted(pairs[order], all_experts, right=True)  # [E]
    begins = torch.searchsorted(pairs[order], all_experts)
    needed = (ends - begins + BM - 1) // BM
    last = needed.cumsum(0)  # [E], one past an expert's last tile
    count = min(pairs.numel(), experts + pairs.numel() // BM)
    index = torch.arange(count, device=pairs.device)
    owner = torch.searchsorted(last, index, right=True)  # [T]
    known = owner.clamp(max=experts - 1)
    begin = begins[known] + (index - last[known] + needed[known]) * BM
    return Tiles(order, owner, begin, ends[known])


def run(
    x: torch.Tensor,  # [M, H]
    stacks: tuple[torch.Tensor, torch.Tensor],
    chosen: torch.Tensor,  # [M, K] int64
    weights: torch.Tensor,  # [M, K] float32
    residual: torch.Tensor,  # [M, H]
) -> torch.Tensor:
    """[M, H] in x's dtype. Everything contiguous."""
    (gate_up, down), (m, hidden), k = stacks, x.shape, chosen.shape[1]
    experts, inner = down.shape[0], down.shape[2]
    cut = tiles(chosen, experts)
    held = torch.empty(m * k, inner, dtype=x.dtype, device=x.device)  # sorted
    part = torch.empty(m * k, hidden, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    for source, weight, target, gated in ((x, gate_up, held, True), (held, down, part, False)):
        outputs = target.shape[1]
        kernel.multiply[(cut.owner.numel(), -(-outputs // BN))](
            source,
            weight,
            target,
            cut.order,
            cut.owner,
            cut.begin,
            cut.end,
            outputs,
            TOP=k,
            K=source.shape[1],
            BN=BN,
            BM=BM,
            BK=BK,
            EXPERTS=experts,
            GATED=gated,
            num_warps=4,
            num_stages=3,
        )
    combine = kernel.combine[(m, -(-hidden // WIDE))]
    combine(part, weights, residual, out, hidden, TOP=k, BN=WIDE, num_warps=2)
    return out

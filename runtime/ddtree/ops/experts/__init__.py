"""The gated feed-forwards of a mixture, for the experts that each token was routed to.

On CUDA a token's result has the same bits whatever other tokens are beside it, and no shape
depends on the routing, so that a step with it can be captured.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.experts import reference
from ddtree.ops.experts.packed import Packed
from ddtree.ops.linear.reference import multiply

Stack = torch.Tensor | Packed  # one matrix of all experts
Shared = tuple[torch.Tensor, torch.Tensor]


def expert_mlp(
    x: torch.Tensor,
    stacks: tuple[Stack, Stack],
    chosen: torch.Tensor,
    weights: torch.Tensor,
    residual: torch.Tensor,
    shared: Shared | None = None,
) -> torch.Tensor:
    """x [..., H] through its experts, plus residual [..., H]: [..., H] in x's dtype.

    `stacks` are gate_up [E, 2 F, H] (gate rows, then up rows) and down [E, H, F], floats or INT4;
    chosen [..., K] int64 and weights [..., K] float32 come from the router; expert E is nobody's
    and weighs 0. `shared` are inner features [..., S] of an expert that every token goes to and
    its down [H, S], whose product is added too. On CUDA nothing is read of experts that nobody
    chose, and INT4 becomes numbers in registers. Raises ValueError when shapes differ.
    """
    gate_up, down = stacks
    hidden, inner = x.shape[-1], down.shape[-1]
    if tuple(gate_up.shape[1:]) != (2 * inner, hidden) or down.shape[1] != hidden:
        raise ValueError(
            f"experts {tuple(gate_up.shape)} and {tuple(down.shape)} do not fit {hidden} features"
        )
    rows, at = x.reshape(-1, hidden).contiguous(), residual.reshape(-1, hidden).contiguous()
    k = chosen.shape[-1]
    picked, shares = chosen.reshape(-1, k).contiguous(), weights.reshape(-1, k).contiguous()
    if shared is not None:
        shared = shared[0].reshape(-1, shared[0].shape[-1]).contiguous(), shared[1]
    if uses_kernel(x):
        from ddtree.ops.experts import launch

        return launch.run(rows, stacks, picked, shares, at, shared).view(x.shape)
    out = reference.expert_mlp(rows, gate_up, down, picked, shares) + at
    if shared is not None:
        out = multiply(*shared, out, out.dtype)
    return out.to(x.dtype).view(x.shape)

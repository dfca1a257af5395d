"""The feed-forward of a mixture: a router picks a few small gated ones for every token."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.config import Experts
from ddtree.layers.linear import Linear
from ddtree.ops.experts import expert_mlp


class SparseMlp(nn.Module):
    """`gate_up` [E, 2 F, H] stacks an expert's gate and up rows; `down` [E, H, F]."""

    def __init__(
        self, router: Linear, gate_up: torch.Tensor, down: torch.Tensor, experts: Experts
    ) -> None:
        super().__init__()
        self.router = router
        self.gate_up = gate_up
        self.down = down
        self.active = experts.active
        self.normalised = experts.normalised

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """[..., H] -> [..., H], plus `residual`."""
        chosen, weights = self.route(x)
        return expert_mlp(x, (self.gate_up, self.down), chosen, weights, residual)

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Experts [..., K] int64 of each token, and their weights [..., K] float32."""
        shares = self.router(x).float().softmax(-1)
        weights, chosen = shares.topk(self.active, dim=-1)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return chosen, weights

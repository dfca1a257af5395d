"""Who of a mixture's experts a token goes to, and with what weight.

Routers give experts [..., K] int64 of each token x [..., H], and their weights [..., K] float32.
"""

from __future__ import annotations

import torch
from torch import nn

from ddtree.config import Experts, SigmoidRouting
from ddtree.layers.linear import Linear

Choice = tuple[torch.Tensor, torch.Tensor]
BEST = 2  # experts that a group is judged by


class SoftmaxRouter(nn.Module):
    def __init__(self, gate: Linear, experts: Experts) -> None:
        super().__init__()
        self.gate = gate
        self.active = experts.active
        self.normalised = experts.normalised

    def forward(self, x: torch.Tensor) -> Choice:
        shares = self.gate(x).float().softmax(-1)
        weights, chosen = shares.topk(self.active, dim=-1)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return chosen, weights


class SigmoidRouter(nn.Module):
    """`noaux_tc` (DeepSeek-V3, arXiv 2412.19437): a correction that chooses but does not weigh.

    `gate` and `correction` [E] are float32 whatever the model is.
    """

    def __init__(
        self, gate: Linear, correction: torch.Tensor, experts: Experts, routing: SigmoidRouting
    ) -> None:
        super().__init__()
        self.gate = gate
        self.correction = correction
        self.active = experts.active
        self.normalised = experts.normalised
        self.routing = routing

    def forward(self, x: torch.Tensor) -> Choice:
        shares = self.gate(x.float()).sigmoid()  # [..., E]
        chosen = self._admitted(shares + self.correction).topk(self.active, dim=-1).indices
        weights = shares.gather(-1, chosen)
        if self.normalised:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return chosen, weights * self.routing.scaling

    def _admitted(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores [..., E]; experts of other than the best groups have none."""
        if self.routing.active_groups == self.routing.groups:
            return scores
        grouped = scores.view(*scores.shape[:-1], self.routing.groups, -1)
        best = grouped.topk(BEST, dim=-1).values.sum(-1)  # [..., groups]
        inside = best.topk(self.routing.active_groups, dim=-1).indices
        admitted = torch.zeros_like(best, dtype=torch.bool).scatter(-1, inside, True)
        return grouped.masked_fill(~admitted.unsqueeze(-1), -torch.inf).flatten(-2)

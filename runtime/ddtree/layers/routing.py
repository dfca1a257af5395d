"""Who of a mixture's experts a token goes to, and with what weight.

Routers give experts [..., K] int64 of each token x [..., H], and their weights [..., K] float32.
`scores` [..., E] float32 may be made already, beside another product of x, where the gate `fits`.
"""

from __future__ import annotations

import torch
from torch import nn

from ddtree.config import Experts
from ddtree.layers.linear import Linear
from ddtree.ops.backend import uses_kernel
from ddtree.ops.linear import linear
from ddtree.ops.routing import Choice, route


class SoftmaxRouter(nn.Module):
    def __init__(self, gate: Linear, experts: Experts) -> None:
        super().__init__()
        self.gate = gate
        self.experts = experts

    def forward(self, x: torch.Tensor, scores: torch.Tensor | None = None) -> Choice:
        return route(self.gate(x).float() if scores is None else scores, self.experts)

    def fits(self, x: torch.Tensor) -> bool:
        """Not in 16 bits, where scores are rounded to x's before the softmax."""
        return False


class SigmoidRouter(nn.Module):
    """Scores and `correction` [E] are float32 whatever the model is.

    `gate` is float32, or has x's 16 bits where it is stored so: their products are exact, and a
    kernel sums them in float32 in an order that knows nothing of the other tokens.
    """

    def __init__(self, gate: Linear, correction: torch.Tensor, experts: Experts) -> None:
        super().__init__()
        self.gate = gate
        self.correction = correction
        self.experts = experts

    def forward(self, x: torch.Tensor, scores: torch.Tensor | None = None) -> Choice:
        scores = self._scores(x) if scores is None else scores
        return route(scores, self.experts, self.correction)

    def fits(self, x: torch.Tensor) -> bool:
        return uses_kernel(x) and not self.gate.packed and self.gate.weight.dtype == x.dtype

    def _scores(self, x: torch.Tensor) -> torch.Tensor:
        if self.fits(x):
            return linear(x, self.gate.weight, dtype=torch.float32)
        scores: torch.Tensor = self.gate(x.float())
        return scores

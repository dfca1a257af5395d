"""The feed-forward of a mixture: a router picks a few small gated ones for every token."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.layers.mlp import GatedMlp
from ddtree.layers.routing import SigmoidRouter, SoftmaxRouter
from ddtree.ops.experts import Stack, expert_mlp
from ddtree.ops.linear import linear_pair
from ddtree.ops.routing import Choice


class SparseMlp(nn.Module):
    """`gate_up` [E, 2 F, H] stacks an expert's gate and up rows; `down` [E, H, F].

    Every token passes through `shared`, where there is one. `held`: which of the router's experts
    these are, where other ranks have the others; None: all of them.
    """

    def __init__(
        self,
        router: SoftmaxRouter | SigmoidRouter,
        gate_up: Stack,
        down: Stack,
        shared: GatedMlp | None,
        held: range | None = None,
    ) -> None:
        super().__init__()
        self.router = router
        self.gate_up = gate_up
        self.down = down
        self.shared = shared
        self.held = held

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """[..., H] -> [..., H], plus `residual`."""
        scores, inner = self._scored(x)
        chosen, weights = self.router(x, scores)
        if self.held is not None:
            chosen, weights = self._own(chosen, weights, self.held)
        beside = None
        if self.shared is not None and self.shared.down.packed:
            residual = self.shared(x, residual)
        elif self.shared is not None:
            beside = self.shared.gated(x) if inner is None else inner, self.shared.down.weight
        return expert_mlp(x, (self.gate_up, self.down), chosen, weights, residual, beside)

    def _scored(self, x: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The router's scores and what `shared.down` takes, where one launch makes both."""
        if self.shared is None or not self.router.fits(x) or self.shared.gate_up.packed:
            return None, None
        weights = (self.router.gate.weight, self.shared.gate_up.weight)
        return linear_pair(x, *weights, dtype=torch.float32)

    @staticmethod
    def _own(chosen: torch.Tensor, weights: torch.Tensor, held: range) -> Choice:
        """The router's choice among `held` alone: another rank's expert is nobody's here."""
        own = chosen - held.start
        elsewhere = (own < 0) | (own >= len(held))
        return own.masked_fill(elsewhere, len(held)), weights.masked_fill(elsewhere, 0.0)

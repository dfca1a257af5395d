"""The gated feed-forward: down(silu(gate(x)) * up(x)), with gate and up in one product."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ddtree.layers.linear import Linear


class GatedMlp(nn.Module):
    def __init__(self, gate_up: Linear, down: Linear) -> None:
        super().__init__()
        self.gate_up = gate_up
        self.down = down

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [..., H] -> [..., H]
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: torch.Tensor = self.down(functional.silu(gate) * up)
        return out

"""The gated feed-forward: down(silu(gate(x)) * up(x)), with gate and up in one product."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ddtree.layers.linear import Linear
from ddtree.ops.linear import gated_linear


class GatedMlp(nn.Module):
    def __init__(self, gate_up: Linear, down: Linear) -> None:
        super().__init__()
        self.gate_up = gate_up
        self.down = down

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """[..., H] -> [..., H], plus `residual`."""
        out: torch.Tensor = self.down(self.gated(x), residual)
        return out

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        """What `down` takes: silu(gate) * up."""
        if not self.gate_up.packed:
            return gated_linear(x, self.gate_up.weight)
        gate, up = torch.chunk(self.gate_up(x), 2, dim=-1)
        return functional.silu(gate) * up

"""The gated feed-forward: down(silu(gate(x)) * up(x)), with gate and up in one product."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ddtree.layers.linear import Linear
from ddtree.layers.norm import RmsNorm, Stream
from ddtree.ops.half_norm import Half
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

    def before(
        self, x: torch.Tensor | Half, residual: torch.Tensor, norm: RmsNorm | None
    ) -> torch.Tensor | Stream:
        """The same, and perhaps half of the norm behind it."""
        return self.down.add(self.gated(x), residual, norm)

    def gated(self, x: torch.Tensor | Half) -> torch.Tensor:
        """What `down` takes: silu(gate) * up."""
        if not self.gate_up.packed:
            return gated_linear(x, self.gate_up.weight)
        gate, up = torch.chunk(self.gate_up(x), 2, dim=-1)
        return functional.silu(gate) * up

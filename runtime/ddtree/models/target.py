"""What the engine asks of a target, whatever its family."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import ModelShape
from ddtree.ops.tree_attention import AttentionPlan


@dataclass(frozen=True)
class TargetOutput:
    """What one forward brings. Set by the target."""

    hidden: torch.Tensor  # [B, N, H], after the final norm
    layers: tuple[torch.Tensor, ...]  # outputs of the asked layers, each [B, N, H]

    @cached_property
    def features(self) -> torch.Tensor | None:
        """[B, N, F], the layers side by side; None where none was asked."""
        return torch.cat(self.layers, dim=-1) if self.layers else None


class Target(Protocol):
    @property
    def shape(self) -> ModelShape: ...
    @property
    def held(self) -> ModelShape:
        """What of `shape` this rank holds, its cache included."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...

    def forward(
        self,
        tokens: torch.Tensor,  # [B, N] int64
        positions: torch.Tensor,  # [B, N] int64
        pool: KvPool,
        plan: AttentionPlan,
        feature_layers: tuple[int, ...] = (),
    ) -> TargetOutput:
        """Writes the keys and values of the N tokens to the plan's slots of `pool`."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., H] -> [..., V] float32."""

    def raw_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same as the head rounded them: half the bytes for who widens them on the way."""

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """[B, N] -> [B, N, H]."""

"""What a step asks of the models: two protocols, so that the algorithm knows no family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import DrafterShape, ModelShape
from ddtree.ops.tree_attention import AttentionPlan


class TargetOutput(Protocol):
    @property
    def hidden(self) -> torch.Tensor: ...  # [B, N, H], after the final norm
    @property
    def features(self) -> torch.Tensor | None: ...  # [B, N, F], None when no layer was named


class Target(Protocol):
    @property
    def shape(self) -> ModelShape: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """[B, N] to [B, N, H]."""

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        pool: KvPool,
        plan: AttentionPlan,
        feature_layers: tuple[int, ...] = (),
    ) -> TargetOutput:
        """Run [B, N] tokens at [B, N] positions; writes their keys and values to the pool."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., H] to float32 [..., V]."""


class Drafter(Protocol):
    @property
    def shape(self) -> DrafterShape: ...

    def write_context(
        self, features: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, pool: KvPool
    ) -> None:
        """Project features [B, T, F] once and write every layer's keys and values."""

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        pool: KvPool,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """The block [B, b, H] through the layers: hidden [B, b, H] after the final norm."""


@dataclass(frozen=True)
class Models:
    target: Target
    drafter: Drafter | None  # None: autoregressive, or trees that come from the host

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self.drafter.shape.target_layer_ids if self.drafter else ()


@dataclass(frozen=True)
class Pools:
    target: KvPool
    drafter: KvPool | None
    page_size: int  # tokens

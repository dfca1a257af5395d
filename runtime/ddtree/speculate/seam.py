"""What a step works with: models behind protocols, so that the algorithm knows no family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import DrafterShape, ModelShape
from ddtree.models.target import Target
from ddtree.ops.tree_attention import AttentionPlan


class Drafter(Protocol):
    @property
    def shape(self) -> DrafterShape: ...
    @property
    def held(self) -> ModelShape:
        """What of its layers this rank has."""

    @property
    def mask_embedding(self) -> torch.Tensor | None:
        """[H], where the mask is none of the target's tokens."""

    def write_context(
        self, features: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, pool: KvPool
    ) -> None:
        """Project features [B, T, F] once and write every layer's keys and values."""

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        pool: KvPool,
        plans: Sequence[AttentionPlan],
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

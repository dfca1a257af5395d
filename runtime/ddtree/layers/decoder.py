"""One decoder layer: attention, then the feed-forward, each behind its norm and added back."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.layers.attention import Attention
from ddtree.layers.experts import SparseMlp
from ddtree.layers.latent_attention import LatentAttention
from ddtree.layers.mlp import GatedMlp
from ddtree.layers.norm import RmsNorm
from ddtree.layers.rotary import Angles
from ddtree.ops.tree_attention import AttentionPlan


class DecoderLayer(nn.Module):
    def __init__(
        self,
        attention_norm: RmsNorm,
        attention: Attention | LatentAttention,
        mlp_norm: RmsNorm,
        mlp: GatedMlp | SparseMlp,
    ) -> None:
        super().__init__()
        self.attention_norm = attention_norm
        self.attention = attention
        self.mlp_norm = mlp_norm
        self.mlp = mlp

    def forward(
        self,
        x: torch.Tensor,  # [B, N, H]
        angles: Angles,
        kv: tuple[torch.Tensor, ...],
        plan: AttentionPlan,
    ) -> torch.Tensor:
        x = self.attention(self.attention_norm(x), x, angles, kv, plan)
        out: torch.Tensor = self.mlp(self.mlp_norm(x), x)
        return out

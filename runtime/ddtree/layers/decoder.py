"""One decoder layer: attention, then the feed-forward, each behind its norm and added back.

Where ranks share the layer, each has a part of either sum; what is added to counts once.
"""

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
from ddtree.parallel.group import ALONE, Group


class DecoderLayer(nn.Module):
    def __init__(
        self,
        attention_norm: RmsNorm,
        attention: Attention | LatentAttention,
        mlp_norm: RmsNorm,
        mlp: GatedMlp | SparseMlp,
        group: Group = ALONE,
    ) -> None:
        super().__init__()
        self.attention_norm = attention_norm
        self.attention = attention
        self.mlp_norm = mlp_norm
        self.mlp = mlp
        self.group = group

    def forward(
        self,
        x: torch.Tensor,  # [B, N, H]
        angles: Angles,
        kv: tuple[torch.Tensor, ...],
        plan: AttentionPlan,
    ) -> torch.Tensor:
        group = self.group
        x = group.all_reduce(
            self.attention(self.attention_norm(x), group.first(x), angles, kv, plan)
        )
        return group.all_reduce(self.mlp(self.mlp_norm(x), group.first(x)))

"""Grouped-query attention over the paged cache, with one product for queries, keys and values."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.layers.linear import Linear
from ddtree.layers.norm import RmsNorm
from ddtree.layers.rotary import Angles, rotate
from ddtree.ops.tree_attention import AttentionPlan, tree_attention, write_kv


class Attention(nn.Module):
    """`qkv` stacks the query, key and value rows; `qk_norm` [Hq + Hkv, D] or None."""

    def __init__(
        self, qkv: Linear, output: Linear, qk_norm: RmsNorm | None, heads: int, head_dim: int
    ) -> None:
        super().__init__()
        self.qkv = qkv
        self.output = output
        self.qk_norm = qk_norm
        self.heads = heads
        self.head_dim = head_dim
        self.kv_heads = (qkv.out_features // head_dim - heads) // 2

    def forward(
        self,
        x: torch.Tensor,  # [B, N, H]
        angles: Angles,
        kv: tuple[torch.Tensor, torch.Tensor],  # this layer's keys and values, each [slots, Hkv, D]
        plan: AttentionPlan,
    ) -> torch.Tensor:
        keys, values = kv
        joint = self.qkv(x).view(*x.shape[:2], -1, self.head_dim)  # [B, N, Hq + 2 Hkv, D]
        turned, v = torch.split(joint, [self.heads + self.kv_heads, self.kv_heads], dim=2)
        if self.qk_norm is not None:
            turned = self.qk_norm(turned)
        turned = rotate(turned, angles)
        q, k = torch.split(turned, [self.heads, self.kv_heads], dim=2)
        write_kv(keys, values, k, v, plan)
        out: torch.Tensor = self.output(tree_attention(q, keys, values, plan).flatten(2))
        return out

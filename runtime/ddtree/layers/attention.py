"""Grouped-query attention over the paged cache, with one product for queries, keys and values."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.layers.linear import Linear
from ddtree.layers.norm import RmsNorm, Stream
from ddtree.layers.rotary import Angles, rotate
from ddtree.ops.half_norm import Half
from ddtree.ops.rope_kv import rope_kv
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
        x: torch.Tensor | Half,  # [B, N, H]
        residual: torch.Tensor,  # [B, N, H], added to the result
        angles: Angles,
        kv: tuple[torch.Tensor, ...],  # this layer's keys and values, each [slots, Hkv, D]
        plan: AttentionPlan,
        behind: RmsNorm | None = None,
    ) -> torch.Tensor | Stream:
        keys, values = kv
        joint = self.qkv(x).view(*residual.shape[:2], -1, self.head_dim)  # [B, N, Hq + 2 Hkv, D]
        if joint.is_cuda:  # one kernel
            norm = (self.qk_norm.weight, self.qk_norm.eps) if self.qk_norm is not None else None
            q = rope_kv(joint, (angles.cos, angles.sin), (keys, values), plan.write_slots, norm)
        else:
            q = self._turn(joint, angles, (keys, values), plan)
        seen = tree_attention(q, keys, values, plan).flatten(2)
        return self.output.add(seen, residual, behind)

    def _turn(
        self,
        joint: torch.Tensor,  # [B, N, Hq + 2 Hkv, D]
        angles: Angles,
        kv: tuple[torch.Tensor, torch.Tensor],
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """Queries [B, N, Hq, D]; writes keys and values."""
        turned, v = torch.split(joint, [self.heads + self.kv_heads, self.kv_heads], dim=2)
        if self.qk_norm is not None:
            turned = self.qk_norm(turned)
        q, k = torch.split(rotate(turned, angles), [self.heads, self.kv_heads], dim=2)
        write_kv(*kv, k, v, plan)
        return q

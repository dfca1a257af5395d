"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) with its projections absorbed."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.config import Latent
from ddtree.layers.linear import Linear
from ddtree.layers.norm import RmsNorm, Stream
from ddtree.layers.rotary import Angles
from ddtree.ops.half_norm import Half
from ddtree.ops.latent_attention import latent_values
from ddtree.ops.rope_latents import latent_queries, rope_latents
from ddtree.ops.tree_attention import AttentionPlan


class LatentAttention(nn.Module):
    """Queries go into the latents' space and results come out: heads read the cache as it is.

    `down` stacks the rows of the query's part, the latent and the rotated key; `queries` makes
    [..., Hq x (nope + rope)] of the query's part, behind its norm if there is one; `up` is what
    makes a head's key [Hq, nope, rank] and value [Hq, value, rank] of a latent.
    """

    def __init__(
        self,
        down: Linear,
        queries: tuple[RmsNorm | None, nn.Module],
        latent_norm: RmsNorm,
        up: tuple[torch.Tensor, torch.Tensor],
        output: Linear,
        latent: Latent,
    ) -> None:
        super().__init__()
        self.down = down
        self.query_norm, self.queries = queries
        self.latent_norm = latent_norm
        self.key_up, self.value_up = up
        self.output = output
        self.latent = latent

    def forward(
        self,
        x: torch.Tensor | Half,  # [B, N, H]
        residual: torch.Tensor,  # [B, N, H], added to the result
        angles: Angles,
        kv: tuple[torch.Tensor, ...],  # this layer's latents alone, [slots, 1, rank + rope]
        plan: AttentionPlan,
        behind: RmsNorm | None = None,
    ) -> torch.Tensor | Stream:
        (latents,) = kv
        turned_by = (angles.cos, angles.sin)
        second = self.query_norm
        narrow = rope_latents(
            self.down(x),
            turned_by,
            (latents, plan.write_slots),
            (self.latent_norm.weight, self.latent_norm.eps),
            None if second is None else (second.weight, second.eps),
        )
        heads = self.queries(narrow).unflatten(
            -1, (len(self.key_up), -1)
        )  # [B, N, Hq, nope + rope]
        q = latent_queries(heads, self.key_up, turned_by)
        values = latent_values(q, latents, plan, self.latent.scale, self.value_up)
        return self.output.add(values.flatten(2), residual, behind)

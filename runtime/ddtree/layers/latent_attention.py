"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) with its projections absorbed."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.config import Latent
from ddtree.layers.linear import Linear
from ddtree.layers.norm import RmsNorm
from ddtree.layers.rotary import Angles, rotate
from ddtree.ops.latent_attention import latent_attention, write_latents
from ddtree.ops.tree_attention import AttentionPlan


class LatentAttention(nn.Module):
    """Queries go into the latents' space and results come out: heads read the cache as it is.

    `down` stacks the rows of the query's part, the latent and the rotated key; `queries` makes
    [..., Hq x (nope + rope)] of the query's part; `up` is what makes a head's key [Hq, nope, rank]
    and value [Hq, value, rank] of a latent.
    """

    def __init__(
        self,
        down: Linear,
        queries: nn.Module,
        latent_norm: RmsNorm,
        up: tuple[torch.Tensor, torch.Tensor],
        output: Linear,
        latent: Latent,
    ) -> None:
        super().__init__()
        self.down = down
        self.queries = queries
        self.latent_norm = latent_norm
        self.key_up, self.value_up = up
        self.output = output
        self.latent = latent
        self.parts = [down.out_features - latent.cached_dim, latent.rank, latent.rope_dim]

    def forward(
        self,
        x: torch.Tensor,  # [B, N, H]
        residual: torch.Tensor,  # [B, N, H], added to the result
        angles: Angles,
        kv: tuple[torch.Tensor, ...],  # this layer's latents alone, [slots, 1, rank + rope]
        plan: AttentionPlan,
    ) -> torch.Tensor:
        (latents,) = kv
        narrow, latent, key = torch.split(self.down(x), self.parts, dim=-1)
        turned = rotate(key.unsqueeze(2), angles).squeeze(2)  # [B, N, rope]
        write_latents(latents, torch.cat((self.latent_norm(latent), turned), -1), plan)
        q = self._absorbed(self.queries(narrow), angles)
        out = latent_attention(q, latents, plan, self.latent.rank, self.latent.scale)
        values = torch.einsum("bnhr,hvr->bnhv", out, self.value_up)
        result: torch.Tensor = self.output(values.flatten(2), residual)
        return result

    def _absorbed(self, joint: torch.Tensor, angles: Angles) -> torch.Tensor:
        """Queries as the latents are laid out: [B, N, Hq, rank + rope]."""
        heads = joint.view(*joint.shape[:2], self.key_up.shape[0], -1)
        straight, turning = torch.split(heads, [self.latent.nope_dim, self.latent.rope_dim], dim=-1)
        inside = torch.einsum("bnhd,hdr->bnhr", straight, self.key_up)
        return torch.cat((inside, rotate(turning, angles)), dim=-1)

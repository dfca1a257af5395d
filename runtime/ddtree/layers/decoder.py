"""One decoder layer: attention, then the feed-forward, each behind its norm and added back.

Where ranks share the layer, each has a part of either sum; what is added to counts once. Where they
do not, and on both sides of a norm are products, those may do it in halves (`RmsNorm.halves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import nn

from ddtree.layers.attention import Attention
from ddtree.layers.experts import SparseMlp
from ddtree.layers.latent_attention import LatentAttention
from ddtree.layers.mlp import GatedMlp
from ddtree.layers.norm import RmsNorm, Stream
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
        x: Stream,  # behind `attention_norm`
        angles: Angles,
        kv: tuple[torch.Tensor, ...],
        plan: AttentionPlan,
        after: RmsNorm | None,  # the next layer's
    ) -> Stream:
        first = self.group.first(x.hidden)
        x = self._behind(
            self.attention(x.normed, first, angles, kv, plan, self.mlp_norm), self.mlp_norm
        )
        first = self.group.first(x.hidden)
        if isinstance(self.mlp, GatedMlp):
            return self._behind(self.mlp.before(x.normed, first, after), after)
        return self._behind(self.mlp(x.normed, first), after)

    def _behind(self, added: torch.Tensor | Stream, norm: RmsNorm | None) -> Stream:
        """What of a part's sum goes on, behind this norm."""
        if isinstance(added, Stream):
            return added
        hidden = self.group.all_reduce(added)
        return Stream(hidden, hidden if norm is None else norm(hidden))


def through(
    layers: Iterable[nn.Module],
    x: torch.Tensor,  # [B, N, H]
    angles: Angles,
    kv: Callable[[int], tuple[torch.Tensor, ...]],  # of a layer
    plans: Sequence[AttentionPlan],  # one a layer
) -> Iterator[torch.Tensor]:
    """x behind each of the decoder layers."""
    own = [layer for layer in layers if isinstance(layer, DecoderLayer)]
    norms = [layer.attention_norm for layer in own]
    stream = Stream(x, norms[0](x))
    after = [*norms[1:], None]
    for index, (layer, norm, plan) in enumerate(zip(own, after, plans, strict=True)):
        stream = layer(stream, angles, kv(index), plan, norm)
        yield stream.hidden

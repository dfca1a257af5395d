"""Layers out of a checkpoint's tensors, part by part, so that a load never holds a part twice."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from ddtree.config import Experts, Latent, ModelShape
from ddtree.layers.attention import Attention
from ddtree.layers.decoder import DecoderLayer
from ddtree.layers.experts import SparseMlp
from ddtree.layers.latent_attention import LatentAttention
from ddtree.layers.linear import Linear
from ddtree.layers.mlp import GatedMlp
from ddtree.layers.norm import RmsNorm
from ddtree.layers.routing import SigmoidRouter, SoftmaxRouter
from ddtree.models import weights as names
from ddtree.models.split import UNSPLIT, Share, Split
from ddtree.models.stacked import stacked
from ddtree.models.weights import Weights, layer_name, take
from ddtree.ops.experts import Stack
from ddtree.ops.linear import begins_norms

LATENT_EPS = 1e-6  # the norms inside latent attention do not ask the config


class Assembler:
    """Reads from `weights`; what it builds has the dtype and the device of `like`.

    `shape` and `weights` are the whole model's; what is built is this rank's share of it.
    """

    def __init__(
        self, weights: Weights, shape: ModelShape, like: torch.Tensor, split: Split = UNSPLIT
    ) -> None:
        self.weights = Share(weights, shape, split)
        self.shape = split.held(shape)
        self.split = split
        self.like = like

    def linear(self, *tensors: str) -> Linear:
        return Linear(take(self.weights, tensors, self.like))

    def norm(self, tensor: str, *, halves: bool = False) -> RmsNorm:
        weight = take(self.weights, (tensor,), self.like)
        return RmsNorm(weight, self.shape.rms_norm_eps, halves=halves)

    def layer(self, index: int) -> DecoderLayer:
        part, latent = partial(part_of, index), self.shape.latent
        halves = self.split.group.size == 1 and begins_norms(self.like, self.shape.hidden_size)
        mlp = self.feed_forward(index)
        dense = isinstance(mlp, GatedMlp)
        return DecoderLayer(
            self.norm(*part(names.ATTENTION_NORM), halves=halves),
            self.attention(index) if latent is None else self.latent_attention(index, latent),
            self.norm(*part(names.MLP_NORM), halves=halves and dense),
            mlp,
            self.split.group,
        )

    def attention(self, index: int) -> Attention:
        part = partial(part_of, index)
        return Attention(
            self.linear(*part(names.QKV)),
            self.linear(*part(names.OUTPUT)),
            self.qk_norm(index) if self.shape.qk_norm else None,
            self.shape.num_heads,
            self.shape.head_dim,
        )

    def latent_attention(self, index: int, latent: Latent) -> LatentAttention:
        def rows(tensor: str) -> torch.Tensor:
            return take(self.weights, (layer_name(index, tensor),), self.like)

        def rotating(tensor: str, heads: int) -> torch.Tensor:
            found = rows(tensor)
            return halves(found, heads, latent.rope_dim) if latent.interleaved else found

        queries: tuple[RmsNorm | None, nn.Module] = (None, nn.Identity())
        if latent.query_rank is None:
            narrow = rotating(names.QUERY, self.shape.num_heads)
        else:
            narrow = rows(names.QUERY_DOWN)
            norm = RmsNorm(rows(names.QUERY_NORM), LATENT_EPS)
            wide = Linear(rotating(names.QUERY_UP, self.shape.num_heads))
            queries = (norm, wide)
        up = rows(names.LATENT_UP).view(self.shape.num_heads, -1, latent.rank)
        return LatentAttention(
            Linear(torch.cat((narrow, rotating(names.LATENT_DOWN, heads=1)))),
            queries,
            RmsNorm(rows(names.LATENT_NORM), LATENT_EPS),
            (up[:, : latent.nope_dim], up[:, latent.nope_dim :]),
            self.linear(*part_of(index, names.OUTPUT)),
            latent,
        )

    def feed_forward(self, index: int) -> GatedMlp | SparseMlp:
        experts = self.shape.experts
        if experts is None or index in experts.dense_layers:
            return self.gated(index)
        held = self.split.experts(experts)
        gate_up, down = (
            self.stacked(index, held, tensors) for tensors in (names.GATE_UP, names.DOWN)
        )
        shared = self.gated(index, shared=True) if experts.shared_size else None
        router = self.router(index, experts)
        return SparseMlp(router, gate_up, down, shared, held if len(held) < experts.count else None)

    def gated(self, index: int, *, shared: bool = False) -> GatedMlp:
        named = names.shared_name if shared else str
        gate_up, down = (
            part_of(index, tuple(map(named, tensors))) for tensors in (names.GATE_UP, names.DOWN)
        )
        return GatedMlp(self.linear(*gate_up), self.linear(*down))

    def router(self, index: int, experts: Experts) -> SoftmaxRouter | SigmoidRouter:
        gate = part_of(index, names.ROUTER)
        if experts.sigmoid is None:
            return SoftmaxRouter(self.linear(*gate), experts)
        exact = self.like.float()
        correction = take(self.weights, (layer_name(index, names.CORRECTION),), exact)
        rows = self.weights.read(*gate)
        kept = self.like if self.like.is_cuda and rows.dtype == self.like.dtype else exact
        return SigmoidRouter(Linear(rows.to(kept)), correction, experts)

    def stacked(self, index: int, experts: range, tensors: tuple[str, ...]) -> Stack:
        """[experts, out, in], the rows of these tensors of each."""
        named = [
            part_of(index, tuple(names.expert_name(i, tensor) for tensor in tensors))
            for i in experts
        ]
        return stacked(self.weights, named, self.like)

    def qk_norm(self, index: int) -> RmsNorm:
        """One norm for queries and keys together: a row of weights a head."""
        q, k = (
            take(self.weights, (layer_name(index, tensor),), self.like) for tensor in names.QK_NORM
        )
        rows = (q.expand(self.shape.num_heads, -1), k.expand(self.shape.num_kv_heads, -1))
        return RmsNorm(torch.cat(rows), self.shape.rms_norm_eps)


def halves(rows: torch.Tensor, heads: int, turned: int) -> torch.Tensor:
    """The last `turned` rows of each head, in pairs (0, 1), (2, 3), .., half by half."""
    whole = rows.view(heads, -1, rows.shape[-1])  # [heads, D, in]
    pairs = whole[:, -turned:]
    return torch.cat((whole[:, :-turned], pairs[:, 0::2], pairs[:, 1::2]), dim=1).flatten(0, 1)


def part_of(index: int, tensors: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(layer_name(index, tensor) for tensor in tensors)

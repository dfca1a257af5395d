"""Layers out of a checkpoint's tensors, part by part, so that a load never holds a part twice."""

from __future__ import annotations

from functools import partial

import torch

from ddtree.config import ModelShape
from ddtree.layers.attention import Attention
from ddtree.layers.decoder import DecoderLayer
from ddtree.layers.experts import SparseMlp
from ddtree.layers.linear import Linear
from ddtree.layers.mlp import GatedMlp
from ddtree.layers.norm import RmsNorm
from ddtree.models import weights as names
from ddtree.models.weights import Weights, layer_name, take


class Assembler:
    """Reads from `weights`; what it builds has the dtype and the device of `like`."""

    def __init__(self, weights: Weights, shape: ModelShape, like: torch.Tensor) -> None:
        self.weights = weights
        self.shape = shape
        self.like = like

    def linear(self, *tensors: str) -> Linear:
        return Linear(take(self.weights, tensors, self.like))

    def norm(self, tensor: str) -> RmsNorm:
        return RmsNorm(take(self.weights, (tensor,), self.like), self.shape.rms_norm_eps)

    def layer(self, index: int) -> DecoderLayer:
        part = partial(part_of, index)
        attention = Attention(
            self.linear(*part(names.QKV)),
            self.linear(*part(names.OUTPUT)),
            self.qk_norm(index) if self.shape.qk_norm else None,
            self.shape.num_heads,
            self.shape.head_dim,
        )
        return DecoderLayer(
            self.norm(*part(names.ATTENTION_NORM)),
            attention,
            self.norm(*part(names.MLP_NORM)),
            self.feed_forward(index),
        )

    def feed_forward(self, index: int) -> GatedMlp | SparseMlp:
        part, experts = partial(part_of, index), self.shape.experts
        if experts is None or index in experts.dense_layers:
            return GatedMlp(self.linear(*part(names.GATE_UP)), self.linear(*part(names.DOWN)))
        gate_up, down = (self.stacked(index, tensors) for tensors in (names.GATE_UP, names.DOWN))
        return SparseMlp(self.linear(*part(names.ROUTER)), gate_up, down, experts)

    def stacked(self, index: int, tensors: tuple[str, ...]) -> torch.Tensor:
        """[experts, out, in], filled one expert at a time."""
        assert self.shape.experts is not None
        whole: torch.Tensor | None = None
        count = self.shape.experts.count
        for i in range(count):
            one = tuple(names.expert_name(i, tensor) for tensor in tensors)
            rows = take(self.weights, part_of(index, one), self.like)
            if whole is None:
                whole = rows.new_empty(count, *rows.shape)
            whole[i] = rows
        assert whole is not None
        return whole

    def qk_norm(self, index: int) -> RmsNorm:
        """One norm for queries and keys together: a row of weights a head."""
        q, k = (
            take(self.weights, (layer_name(index, tensor),), self.like) for tensor in names.QK_NORM
        )
        rows = (q.expand(self.shape.num_heads, -1), k.expand(self.shape.num_kv_heads, -1))
        return RmsNorm(torch.cat(rows), self.shape.rms_norm_eps)


def part_of(index: int, tensors: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(layer_name(index, tensor) for tensor in tensors)

"""Layers out of a checkpoint's tensors, part by part, so that a load never holds a part twice."""

from __future__ import annotations

import torch

from ddtree.config import ModelShape
from ddtree.layers.attention import Attention
from ddtree.layers.decoder import DecoderLayer
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
        def part(tensors: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(layer_name(index, tensor) for tensor in tensors)

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
            GatedMlp(self.linear(*part(names.GATE_UP)), self.linear(*part(names.DOWN))),
        )

    def qk_norm(self, index: int) -> RmsNorm:
        """One norm for queries and keys together: a row of weights a head."""
        q, k = (
            take(self.weights, (layer_name(index, tensor),), self.like) for tensor in names.QK_NORM
        )
        rows = (q.expand(self.shape.num_heads, -1), k.expand(self.shape.num_kv_heads, -1))
        return RmsNorm(torch.cat(rows), self.shape.rms_norm_eps)

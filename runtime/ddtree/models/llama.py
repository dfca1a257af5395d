"""A Llama-like target: embedding, decoder layers, norm, head. Inference only."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.cache.pool import KvPool
from ddtree.config import ModelShape
from ddtree.layers.decoder import through
from ddtree.layers.linear import Linear
from ddtree.layers.rotary import rotary_of
from ddtree.models.assemble import Assembler
from ddtree.models.build import build_all
from ddtree.models.split import UNSPLIT, Split, check_divides
from ddtree.models.target import TargetOutput
from ddtree.models.weights import (
    EMBEDDING,
    HEAD,
    NORM,
    Shapes,
    Weights,
    check_shapes,
    decoder_shapes,
    take,
)
from ddtree.ops.embed import embed
from ddtree.ops.tree_attention import AttentionPlan


class Llama(nn.Module):
    """Built by `models.load.load_target`; satisfies `models.target.Target`.

    One rank's share of the layers, and of the vocabulary's rows; hidden states are whole.
    """

    def __init__(
        self, shape: ModelShape, weights: Weights, like: torch.Tensor, split: Split = UNSPLIT
    ) -> None:
        """`like` gives dtype and device.

        Raises ModelError when `weights` do not fit `shape`, or `shape` does not divide.
        """
        super().__init__()
        check_shapes(weights, target_shapes(shape))
        check_divides(weights.path, shape, split)
        build = Assembler(weights, shape, like, split)
        self.shape = shape
        self.held = build.shape
        self.group = split.group
        self.dtype = like.dtype
        self.device = like.device
        self.embedding = take(build.weights, (EMBEDDING,), like)  # [V / ranks, H]
        self.rotary = rotary_of(shape, like.device)
        self.layers = nn.ModuleList(build_all(build.layer, shape.num_layers, like.device))
        self.norm = build.norm(NORM)
        self.head = Linear(self.embedding) if shape.tied_embeddings else build.linear(HEAD)

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        pool: KvPool,
        plan: AttentionPlan,
        feature_layers: tuple[int, ...] = (),
    ) -> TargetOutput:
        x = self.embed(tokens)
        angles = self.rotary(positions, x.dtype)
        asked: dict[int, torch.Tensor] = {}
        plans = [plan] * len(self.layers)
        for index, behind in enumerate(through(self.layers, x, angles, pool.layer, plans)):
            x = behind
            if index in feature_layers:
                asked[index] = x
        return TargetOutput(self.norm(x), tuple(asked[i] for i in feature_layers))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.raw_logits(hidden).float()

    def raw_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.group.all_gather(self.head(hidden))

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = embed(tokens, self.embedding, self.group.rank * len(self.embedding))
        return self.group.all_reduce(rows)


def target_shapes(shape: ModelShape) -> Shapes:
    table = (shape.vocab_size, shape.hidden_size)
    head = {} if shape.tied_embeddings else {HEAD: table}
    return {EMBEDDING: table} | decoder_shapes(shape) | head

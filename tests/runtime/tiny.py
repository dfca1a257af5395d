"""A small target and drafter with random float64 weights: real attention over the real pages.

Float64 makes rounding far smaller than any gap between logits, so that equality of tokens tests
the algorithm alone. A vocabulary of 12 makes random drafts agree often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import DrafterShape, EngineConfig, ModelShape
from ddtree.engine.build import build
from ddtree.engine.loop import Engine
from ddtree.models.target import TargetOutput
from ddtree.ops.tree_attention import AttentionPlan, tree_attention, write_kv
from ddtree.speculate.seam import Models

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, LAYERS, VOCAB = 16, 4, 2, 4, 2, 12


def _shape(layers: int) -> ModelShape:
    return ModelShape(
        family="tiny",
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        num_layers=layers,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        rms_norm_eps=1e-6,
        rope_theta=1e4,
        max_positions=4096,
        tied_embeddings=True,
    )


class _Layer:
    def __init__(self, generator: torch.Generator) -> None:
        def weight(out: int) -> torch.Tensor:
            return torch.randn(HIDDEN, out, generator=generator, dtype=torch.float64) / 2

        self.q, self.o = weight(HEADS * HEAD_DIM), weight(HIDDEN)
        self.k, self.v = weight(KV_HEADS * HEAD_DIM), weight(KV_HEADS * HEAD_DIM)

    def keys_values(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        split = (*x.shape[:-1], KV_HEADS, HEAD_DIM)
        return (x @ self.k).reshape(split), (x @ self.v).reshape(split)

    def forward(
        self, x: torch.Tensor, pool: KvPool, index: int, plan: AttentionPlan
    ) -> torch.Tensor:
        keys, values = pool.layer(index)
        write_kv(keys, values, *self.keys_values(x), plan)
        q = (x @ self.q).reshape(*x.shape[:-1], HEADS, HEAD_DIM)
        return torch.tanh(x + tree_attention(q, keys, values, plan).flatten(-2) @ self.o)


class TinyTarget:
    """Positions enter as sines added to the embedding."""

    dtype = torch.float64
    device = torch.device("cpu")

    def __init__(self, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.shape = self.held = _shape(LAYERS)
        self.embedding = torch.randn(VOCAB, HIDDEN, generator=generator, dtype=torch.float64)
        self.layers = [_Layer(generator) for _ in range(LAYERS)]

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding[tokens]

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        pool: KvPool,
        plan: AttentionPlan,
        feature_layers: tuple[int, ...] = (),
    ) -> TargetOutput:
        x = self.embed(tokens) + torch.sin(positions.double()).unsqueeze(-1) / 4
        outputs = []
        for i, layer in enumerate(self.layers):
            x = layer.forward(x, pool, i, plan)
            outputs.append(x)
        return TargetOutput(x, tuple(outputs[i] for i in feature_layers))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.raw_logits(hidden).float()

    def raw_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ self.embedding.T


class TinyDrafter:
    """One layer over projected features and the block, as DFlash does it."""

    mask_embedding = None

    def __init__(self, seed: int = 1, block_size: int = 5) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.layer = _Layer(generator)
        self.fusion = torch.randn(LAYERS * HIDDEN, HIDDEN, generator=generator, dtype=torch.float64)
        self.shape = DrafterShape(
            layers=_shape(1),
            block_size=block_size,
            mask_token_id=VOCAB - 1,
            target_layer_ids=tuple(range(LAYERS)),
        )
        self.held = self.shape.layers

    def write_context(
        self, features: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, pool: KvPool
    ) -> None:
        k, v = self.layer.keys_values(torch.tanh(features @ self.fusion))
        keys, values = pool.layer(0)
        keys[slots], values[slots] = k, v

    def forward(
        self,
        embeddings: torch.Tensor,
        positions: torch.Tensor,
        pool: KvPool,
        plans: Sequence[AttentionPlan],
    ) -> torch.Tensor:
        x = embeddings + torch.sin(positions.double()).unsqueeze(-1)
        return self.layer.forward(x, pool, 0, plans[0])


def tiny_engine(config: EngineConfig, *, lag: Literal[0, 1] = 0, start: bool = True) -> Engine:
    """An engine on the tiny pair, started or to be."""
    drafter = TinyDrafter() if config.drafter == "tiny" else None
    engine = build(config, Models(TinyTarget(), drafter), lag=lag)
    if start:
        engine.start()
    return engine

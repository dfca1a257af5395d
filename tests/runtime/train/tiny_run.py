"""A target of a few thousand weights on disk, a tokenizer of letters, and a recipe for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ddtree.config import ModelShape
from ddtree.models.folder import SINGLE
from ddtree.models.llama import target_shapes
from ddtree.models.source import CONFIG
from ddtree.train.recipe import Recipe
from ddtree.train.run import Place
from tests.runtime.models.tensors import random_tensors

SHAPE = ModelShape(
    family="llama",
    vocab_size=40,
    hidden_size=32,
    intermediate_size=48,
    num_layers=3,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    max_positions=512,
    tied_embeddings=False,
)
MASK, END = 0, 39
CALM = 0.01


class Letters:
    """A token a letter, 1 to 38; the mask and the end are none."""

    ends = frozenset({END})

    def encode(self, text: str) -> list[int]:
        return [1 + ord(letter) % 38 for letter in text][-24:]

    def decode(self, tokens: list[int]) -> str:
        return "".join(chr(64 + token) for token in tokens)

    def render(self, user: str) -> str:
        return f"<{user}>"


def write_target(folder: Path, shape: ModelShape = SHAPE) -> Path:
    """Its next token depends on the last one above all, so that there is something to learn."""
    tensors = random_tensors(target_shapes(shape), seed=0).tensors
    for name, weight in tensors.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight.mul_(CALM)
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / SINGLE)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.rms_norm_eps,
        "max_position_embeddings": shape.max_positions,
    }
    (folder / CONFIG).write_text(json.dumps(config))
    return folder


def recipe(model: Path, **changes: Any) -> Recipe:
    small = Recipe(
        str(model),
        mask_token=MASK,
        block_size=6,
        layers=2,
        rounds=2,
        tokens=6000,
        rows=48,
        prompt_tokens=24,
        answer_tokens=40,
        steps=120,
        batch=8,
        anchors=8,
        rate=4e-3,
        warm_up=10,
        settle=5,
        checkpoint_steps=60,
        held_out=12,
    )
    return replace(small, **changes)


def place(out: Path, said: list[str], seconds: float | None = None) -> Place:
    return Place(out, torch.device("cpu"), torch.float32, seconds, say=said.append)

"""A target of a few thousand weights on disk, a tokenizer of letters, and a recipe for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ddtree.train.recipe import Recipe
from ddtree.train.run import Place

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}
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


def write_target(folder: Path, seed: int = 0) -> Path:
    """Its next token depends on the last one above all, so that there is something to learn."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(CALM)
    model.save_pretrained(folder)
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

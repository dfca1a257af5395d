"""Random targets and drafters of a few thousand weights in folders, as a server is given them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ddtree.models.dflash import drafter_shapes
from ddtree.models.folder import SINGLE
from ddtree.models.hf_config import drafter_shape, target_shape
from ddtree.models.llama import target_shapes
from ddtree.models.source import CONFIG
from ddtree.models.weights import Shapes
from tests.runtime.models.tensors import random_tensors
from tests.runtime.models.test_deepseek import SMALL as LATENT
from tests.runtime.models.test_hf_deepseek import TEXT

VOCAB = 12  # random drafts agree often
DENSE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": DENSE,
    # one key head, which both of two ranks hold
    "qwen3": DENSE | {"architectures": ["Qwen3ForCausalLM"], "num_key_value_heads": 1},
    "qwen3_moe": DENSE
    | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "norm_topk_prob": True,
        "tie_word_embeddings": False,
    },
    "deepseek_v3": TEXT | LATENT | {"vocab_size": VOCAB, "hidden_size": 32},
}
DRAFTER: dict[str, Any] = DENSE | {
    "architectures": ["DFlashDraftModel"],
    "num_hidden_layers": 1,
    "tie_word_embeddings": False,
    "block_size": 5,
    "dflash_config": {"mask_token_id": VOCAB - 1, "target_layer_ids": [0, 1]},
}


def write_target(folder: Path, family: str) -> Path:
    return write_random(folder, FAMILIES[family])


def write_random(folder: Path, config: dict[str, Any]) -> Path:
    """A target of this config.json."""
    return _write(folder, config, target_shapes(target_shape(folder, config)))


def write_drafter(folder: Path) -> Path:
    return _write(folder, DRAFTER, drafter_shapes(drafter_shape(folder, DRAFTER)))


def _write(folder: Path, config: dict[str, Any], shapes: Shapes) -> Path:
    folder.mkdir()
    tensors = random_tensors(shapes, seed=1).tensors
    save_file({name: tensor.to(torch.float32) for name, tensor in tensors.items()}, folder / SINGLE)
    (folder / CONFIG).write_text(json.dumps(config))
    return folder

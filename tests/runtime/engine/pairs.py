"""Random targets and drafters of a few thousand weights in folders, as a server is given them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ddtree.config import EngineConfig
from ddtree.engine.loop import Engine
from ddtree.engine.open import open_engine
from ddtree.models.dflash import drafter_shapes
from ddtree.models.folder import SINGLE
from ddtree.models.hf_config import drafter_shape, target_shape
from ddtree.models.llama import target_shapes
from ddtree.models.source import CONFIG
from ddtree.models.weights import Shapes
from tests.runtime.models.kimi_config import SMALL as LATENT
from tests.runtime.models.kimi_config import TEXT
from tests.runtime.models.tensors import random_tensors

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


def write_drafter(folder: Path, **changes: int) -> Path:
    config = DRAFTER | changes
    return _write(folder, config, drafter_shapes(drafter_shape(folder, config)))


@contextmanager
def opened(model: Path, drafter: Path | str, **changes: Any) -> Iterator[Engine]:
    """A running engine, in float32 on a CPU unless `changes` of its configuration say otherwise."""
    config = EngineConfig(
        str(model),
        str(drafter),
        "ddtree",
        budget=8,
        dtype="float32",
        device="cpu",
        context_length=96,
        page_size=4,
        prefill_chunk=7,
        max_running_requests=3,
        threads=1,
    )
    engine = open_engine(replace(config, **changes))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop(drain=False, timeout_s=10)


def _write(folder: Path, config: dict[str, Any], shapes: Shapes) -> Path:
    folder.mkdir()
    tensors = random_tensors(shapes, seed=1).tensors
    save_file({name: tensor.to(torch.float32) for name, tensor in tensors.items()}, folder / SINGLE)
    (folder / CONFIG).write_text(json.dumps(config))
    return folder

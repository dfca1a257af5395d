"""Folders of safetensors: one file or shards, with or without the prefix, whole or broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ddtree.models.errors import ModelError
from ddtree.models.folder import INDEX, SINGLE, FolderWeights
from ddtree.models.hf_config import target_shape
from ddtree.models.llama import target_shapes
from ddtree.models.load import load_target
from tests.runtime.models.session import CPU
from tests.runtime.models.tensors import random_tensors

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
}
SHAPES = target_shapes(target_shape(Path("config.json"), CONFIG))
TENSORS = random_tensors(SHAPES, seed=1).tensors


def write(
    folder: Path, tensors: dict[str, torch.Tensor], *, prefix: str = "", shards: int = 1
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    named = {prefix + name: tensor for name, tensor in tensors.items()}
    if shards == 1:
        save_file(named, folder / SINGLE)
        return folder
    weight_map: dict[str, str] = {}
    for i in range(shards):
        part = dict(sorted(named.items())[i::shards])
        save_file(part, folder / f"model-{i}.safetensors")
        weight_map |= dict.fromkeys(part, f"model-{i}.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    return folder


@pytest.mark.parametrize("prefix", ["", "model."])
@pytest.mark.parametrize("shards", [1, 3])
def test_every_layout_gives_the_same_tensors(tmp_path: Path, prefix: str, shards: int) -> None:
    weights = FolderWeights(write(tmp_path / "m", TENSORS, prefix=prefix, shards=shards))
    assert weights.shapes == SHAPES
    for name, tensor in TENSORS.items():
        assert weights.read(name).equal(tensor)


def test_a_tied_head_stored_once_more_is_no_surplus(tmp_path: Path) -> None:
    doubled = TENSORS | {"lm_head.weight": TENSORS["embed_tokens.weight"].clone()}
    target = load_target(write(tmp_path / "m", doubled), torch.float32, CPU)
    assert target.shape.tied_embeddings


def test_missing_surplus_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    name = "layers.0.mlp.down_proj.weight"
    cases = {
        rf"lacks tensor {name}": {k: v for k, v in TENSORS.items() if k != name},
        rf"tensor {name} is 32 x 47, not 32 x 48": TENSORS | {name: TENSORS[name][:, 1:]},
        r"holds tensor layers\.0\.q\.bias": TENSORS | {"layers.0.q.bias": torch.ones(3)},
        r"tensor norm\.weight is torch\.int64": TENSORS | {"norm.weight": torch.ones(32).long()},
        rf"{name} is torch\.float32 with a scale": TENSORS | {f"{name}_scale": torch.ones(32)},
        rf"int8 tensor {name} has no {name}_scale": TENSORS | {name: TENSORS[name].to(torch.int8)},
    }
    for number, (said, tensors) in enumerate(cases.items()):
        contiguous = {k: v.contiguous() for k, v in tensors.items()}
        folder = write(tmp_path / str(number), contiguous)
        with pytest.raises(ModelError, match=said):
            load_target(folder, torch.float32, CPU)


@pytest.mark.parametrize("kept", [0, 7, 500, -64])
def test_a_truncated_shard_is_named(tmp_path: Path, kept: int) -> None:
    folder = write(tmp_path / "m", TENSORS, shards=3)
    shard = folder / "model-1.safetensors"
    shard.write_bytes(shard.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"model-1\.safetensors: is truncated or corrupt"):
        load_target(folder, torch.float32, CPU)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", TENSORS, shards=3)
    (folder / "model-2.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model-2\.safetensors: is missing"):
        load_target(folder, torch.float32, CPU)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is not JSON"), ("[]", "is not a JSON object"), ("{}", "has no weight_map")],
)
def test_a_broken_index_is_named(tmp_path: Path, text: str, said: str) -> None:
    folder = write(tmp_path / "m", TENSORS, shards=2)
    (folder / INDEX).write_text(text)
    with pytest.raises(ModelError, match=rf"{INDEX}: {said}"):
        load_target(folder, torch.float32, CPU)


def test_a_folder_without_weights_says_what_it_looked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(ModelError, match=rf"has neither {SINGLE} nor {INDEX}"):
        load_target(tmp_path, torch.float32, CPU)

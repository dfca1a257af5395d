"""Small GGUF files written by the real writer: a whole one, and ways to be wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quantize

from ddtree.config import Experts, ModelShape
from ddtree.models.gguf_weights import LAYER, STACKED, TOP
from ddtree.models.llama import target_shapes

SHAPE = ModelShape(
    family="llama",
    vocab_size=300,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    max_positions=256,
    tied_embeddings=True,
)


MIXTURE = dataclasses.replace(
    SHAPE,
    family="qwen3_moe",
    qk_norm=True,
    intermediate_size=1,
    experts=Experts(count=6, active=2, intermediate_size=32, normalised=True),
)


def llama_cpp_name(name: str) -> str:
    top = {usual: theirs for theirs, usual in TOP.items()}
    if name in top:
        return top[name]
    _, index, tensor = name.split(".", 2)
    layer = {usual: theirs for theirs, usual in LAYER.items()}
    return f"blk.{index}.{layer[tensor]}"


def random_arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """Under llama.cpp's names."""
    random = np.random.default_rng(seed)
    return {
        llama_cpp_name(name): random.standard_normal(shape).astype(np.float32) / 8
        for name, shape in target_shapes(SHAPE).items()
    }


def stacked(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A mixture's tensors, from our names to llama.cpp's: the experts of a layer in one."""
    theirs = {usual: name for name, usual in STACKED.items()}
    arrays: dict[str, np.ndarray] = {}
    parts: dict[str, list[np.ndarray]] = {}
    for name, array in tensors.items():
        head, expert, rest = name.partition(".experts.")
        if not expert:
            arrays[llama_cpp_name(name)] = array
            continue
        layer, tensor = head.split(".")[1], "mlp." + rest.partition(".")[2]
        parts.setdefault(f"blk.{layer}.{theirs[tensor]}", []).append(array)
    return arrays | {name: np.stack(rows) for name, rows in parts.items()}


def write_gguf(
    path: Path,
    arrays: dict[str, np.ndarray],
    *,
    architecture: str = "llama",
    metadata: dict[str, str | float | int] | None = None,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
) -> Path:
    """Matrices as `kind`, vectors in float32."""
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(SHAPE.num_layers)
    writer.add_context_length(SHAPE.max_positions)
    writer.add_embedding_length(SHAPE.hidden_size)
    writer.add_feed_forward_length(SHAPE.intermediate_size)
    writer.add_head_count(SHAPE.num_heads)
    writer.add_head_count_kv(SHAPE.num_kv_heads)
    writer.add_layer_norm_rms_eps(SHAPE.rms_norm_eps)
    writer.add_rope_freq_base(SHAPE.rope_theta)
    for key, value in (metadata or {}).items():
        match value:
            case str():
                writer.add_string(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
    for name, array in arrays.items():
        if array.ndim >= 2 and kind != GGMLQuantizationType.F32:
            writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

"""GGUF files: what is read out of them, and what is said about those that are wrong."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st

from ddtree.config import RopeScaling
from ddtree.layers.rotary import frequencies
from ddtree.models.errors import ModelError
from ddtree.models.gguf_file import open_gguf_file
from ddtree.models.gguf_weights import half_by_half, open_gguf
from ddtree.models.llama import Llama, target_shapes
from ddtree.models.load import load_target, open_target
from ddtree.models.weights import check_shapes
from tests.runtime.models.gguf_files import (
    MIXTURE,
    SHAPE,
    llama_cpp_name,
    random_arrays,
    stacked,
    write_gguf,
)
from tests.runtime.models.session import CPU, Session
from tests.runtime.models.tensors import random_tensors


def interleave(rows: np.ndarray, head_dim: int) -> np.ndarray:
    """What llama.cpp's converter does to query and key rows, written row by row."""
    order = [
        head * head_dim + half * (head_dim // 2) + pair
        for head in range(rows.shape[0] // head_dim)
        for pair in range(head_dim // 2)
        for half in range(2)
    ]
    return rows[order]


@given(heads=st.integers(1, 5), pairs=st.integers(1, 8))
def test_query_rows_come_back_half_by_half(heads: int, pairs: int) -> None:
    rows = np.arange(heads * pairs * 2 * 3, dtype=np.float32).reshape(-1, 3)
    stored = torch.from_numpy(interleave(rows, pairs * 2))
    assert half_by_half(stored, pairs * 2).equal(torch.from_numpy(rows))


def test_the_shape_is_read_from_the_metadata(tmp_path: Path) -> None:
    checkpoint = open_gguf(write_gguf(tmp_path / "m.gguf", random_arrays()))
    eps = float(np.float32(SHAPE.rms_norm_eps))  # a GGUF stores it in float32
    assert checkpoint.shape == dataclasses.replace(SHAPE, rms_norm_eps=eps)
    check_shapes(checkpoint.weights, target_shapes(checkpoint.shape))


def test_every_tensor_comes_back_under_its_usual_name(tmp_path: Path) -> None:
    arrays = random_arrays()
    weights = open_gguf(write_gguf(tmp_path / "m.gguf", arrays)).weights
    for name in target_shapes(SHAPE):
        stored = arrays[llama_cpp_name(name)]
        found = weights.read(name).numpy()
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            found = interleave(found, SHAPE.head_dim)
        np.testing.assert_array_equal(found, stored)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_1", "Q8_0", "F16", "BF16"])
def test_quantised_tensors_are_dequantised(tmp_path: Path, kind: str) -> None:
    arrays = random_arrays()
    path = write_gguf(tmp_path / "m.gguf", arrays, kind=GGMLQuantizationType[kind])
    found = open_gguf(path).weights.read("embed_tokens.weight")
    assert found.dtype == torch.float32
    wanted = torch.from_numpy(arrays["token_embd.weight"])
    assert (found - wanted).norm() < 0.12 * wanted.norm()


def test_a_folder_with_one_gguf_is_that_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", random_arrays())
    assert open_target(tmp_path).shape == open_target(path).shape
    (tmp_path / "other.gguf").write_bytes(path.read_bytes())
    with pytest.raises(ModelError, match="2 GGUF files"):
        open_target(tmp_path)


def test_another_file_under_the_same_name_is_read_anew(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", random_arrays())
    before = open_gguf(path).weights.read("norm.weight")
    other = random_arrays(1) | {"output.weight": random_arrays()["token_embd.weight"]}
    write_gguf(tmp_path / "other.gguf", other).replace(path)
    assert not open_gguf(path).weights.read("norm.weight").equal(before)


@pytest.mark.parametrize("kept", [0, 3, 20, 100, 2000, -100, -1])
def test_a_truncated_file_is_named(tmp_path: Path, kept: int) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", random_arrays()).read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:kept])
    with pytest.raises(ModelError, match=r"cut\.gguf: is (truncated|not a GGUF)"):
        load_target(path, torch.float32, CPU)


def test_noise_in_the_header_never_becomes_another_kind_of_error(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", random_arrays()).read_bytes()
    random = np.random.default_rng(7)
    for number in range(150):
        noisy = bytearray(whole)
        for at in random.integers(4, 1200, 3):
            noisy[at] = int(random.integers(256))
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(noisy)
        try:
            checkpoint = open_target(path)
            check_shapes(checkpoint.weights, target_shapes(checkpoint.shape))
        except ModelError:
            continue


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": "gemma3"}, r"architecture 'gemma3' is not supported"),
        ({"metadata": {"llama.rope.scaling.type": "longrope"}}, r"scaling\.type: 'longrope'"),
        ({"metadata": {"llama.rope.scaling.type": "linear"}}, r"scaling\.factor must be a number"),
        ({"metadata": {"llama.expert_count": 8}}, r"mixture of experts"),
        ({"metadata": {"llama.rope.dimension_count": 8}}, r"a part of each head"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    path = write_gguf(tmp_path / "m.gguf", random_arrays(), **changes)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=said):
        open_target(path)


MIXTURE_METADATA: dict[str, str | float | int] = {
    "qwen3moe.expert_count": 6,
    "qwen3moe.expert_used_count": 2,
    "qwen3moe.expert_feed_forward_length": 32,
}


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_the_experts_of_a_mixture_come_out_of_one_tensor(tmp_path: Path, kind: str) -> None:
    tensors = random_tensors(target_shapes(MIXTURE), seed=4).tensors
    path = write_gguf(
        tmp_path / "m.gguf",
        stacked({name: tensor.numpy() for name, tensor in tensors.items()}),
        architecture="qwen3moe",
        metadata=MIXTURE_METADATA,
        kind=GGMLQuantizationType[kind],
    )
    checkpoint = open_gguf(path)
    assert checkpoint.shape.experts == MIXTURE.experts
    check_shapes(checkpoint.weights, target_shapes(checkpoint.shape))
    for name, tensor in tensors.items():
        near = 0.0 if kind == "F32" else 0.01
        found = checkpoint.weights.read(name)
        assert (found - tensor).norm() <= near * tensor.norm(), name


def test_a_mixture_from_a_gguf_is_the_mixture_from_its_tensors(tmp_path: Path) -> None:
    weights = random_tensors(target_shapes(MIXTURE), seed=4)
    arrays = stacked({name: tensor.numpy() for name, tensor in weights.tensors.items()})
    path = write_gguf(
        tmp_path / "m.gguf", arrays, architecture="qwen3moe", metadata=MIXTURE_METADATA
    )
    prompt = torch.tensor([[5, 299, 7, 7, 120]])
    found = Session(load_target(path, torch.float32, CPU)).logits(prompt)
    wanted = Session(Llama(MIXTURE, weights, torch.empty(0))).logits(prompt)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)


def test_rope_scaling_is_read_from_the_metadata(tmp_path: Path) -> None:
    def scaling(**metadata: str | float | int) -> RopeScaling | None:
        keys = {f"llama.rope.scaling.{key}": value for key, value in metadata.items()}
        path = write_gguf(tmp_path / "m.gguf", random_arrays(), metadata=keys)
        return open_gguf(path).shape.rope_scaling

    assert scaling(type="none") is None
    assert scaling(type="linear", factor=4.0) == RopeScaling("linear", 4.0)
    yarn = scaling(type="yarn", factor=4.0, original_context_length=64)
    amplitude = 0.1 * math.log(4) + 1
    assert yarn == RopeScaling("yarn", 4.0, 64, slow=1.0, fast=32.0, amplitude=amplitude)


def test_llama3s_scaling_is_a_tensor_of_divisors(tmp_path: Path) -> None:
    divisors = np.array([1, 1, 1, 2, 4, 8, 8, 8], dtype=np.float32)
    arrays = random_arrays() | {"rope_freqs.weight": divisors}
    path = write_gguf(tmp_path / "m.gguf", arrays)
    shape = load_target(path, torch.float32, CPU).shape
    assert shape.rope_scaling == RopeScaling("table", divisors=tuple(divisors.tolist()))
    plain = frequencies(SHAPE.head_dim, SHAPE.rope_theta)
    scaled = frequencies(SHAPE.head_dim, SHAPE.rope_theta, shape.rope_scaling)
    torch.testing.assert_close(plain / scaled, torch.from_numpy(divisors))


def test_missing_surplus_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    arrays = random_arrays()
    name = "blk.1.ffn_up.weight"
    cases = {
        r"lacks tensor layers\.1\.mlp\.up_proj\.weight": {
            k: v for k, v in arrays.items() if k != name
        },
        r"layers\.1\.mlp\.up_proj\.weight is 95 x 64, not 96 x 64": arrays
        | {name: arrays[name][1:]},
        r"holds tensor blk\.0\.attn_q\.bias": arrays
        | {"blk.0.attn_q.bias": arrays["output_norm.weight"]},
    }
    for number, (said, changed) in enumerate(cases.items()):
        path = write_gguf(tmp_path / f"{number}.gguf", changed)
        with pytest.raises(ModelError, match=said):
            load_target(path, torch.float32, CPU)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    file = open_gguf_file(write_gguf(tmp_path / "m.gguf", random_arrays()))
    with pytest.raises(ModelError, match=r"metadata llama\.nothing must be a number"):
        file.number("llama.nothing")


def test_a_path_with_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        open_target(tmp_path / "absent.gguf")
    with pytest.raises(ModelError, match=r"no config\.json and no GGUF file"):
        open_target(tmp_path)

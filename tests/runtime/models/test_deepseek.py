"""A checkpoint as Kimi-K2.5 is published, made small: its names, INT4 experts, a vision tower."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ddtree.layers.experts import SparseMlp
from ddtree.models.errors import ModelError
from ddtree.models.folder import SINGLE
from ddtree.models.hf_config import target_shape
from ddtree.models.llama import Llama, target_shapes
from ddtree.models.load import load_target
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.experts.packed import Packed
from tests.runtime.models.kimi_config import SEEING, SMALL, TEXT
from tests.runtime.models.session import CPU, Session
from tests.runtime.models.tensors import Tensors, random_tensors

CONFIG: dict[str, Any] = SEEING | {"text_config": TEXT | SMALL}
SHAPE = target_shape(Path("config.json"), CONFIG)
GROUP = 32
FIRST = "layers.1.mlp.experts.0.down_proj.weight"
Named = dict[str, torch.Tensor]


def packed(name: str, weight: torch.Tensor) -> tuple[Named, torch.Tensor]:
    """The three tensors of one matrix, and what they stand for."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32  # 3 seconds

    grouped = weight.view(len(weight), -1, GROUP)
    scale = (grouped.abs().amax(-1) / 7).bfloat16()  # [out, groups]
    numbers = (grouped / scale.float().unsqueeze(-1)).round().clamp(-8, 7)
    exact = (numbers * scale.float().unsqueeze(-1)).bfloat16().float().flatten(1)
    stored = {
        f"{name}_packed": pack_to_int32(numbers.flatten(1).to(torch.int8), 4),
        f"{name}_scale": scale,
        f"{name}_shape": torch.tensor(weight.shape, dtype=torch.int32),
    }
    return stored, exact


def published() -> tuple[Named, Named]:
    """The tensors of a small checkpoint by their published names, and the model they stand for."""
    exact = random_tensors(target_shapes(SHAPE), seed=1).tensors
    stored: Named = {
        "vision_tower.patch_embed.proj.weight": torch.ones(3),
        "mm_projector.proj.0.weight": torch.ones(2, 2),
    }
    for name, tensor in list(exact.items()):
        own: Named = {name: tensor}
        if ".experts." in name:
            own, exact[name] = packed(name, tensor)
        head = "language_model." if name == "lm_head.weight" else "language_model.model."
        stored |= {head + key: value for key, value in own.items()}
    return stored, exact


def write(folder: Path, tensors: Named) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors, folder / SINGLE)
    return folder


@pytest.mark.parametrize("kept", ["floats", "int4"])
def test_int4_experts_are_those_of_the_dequantised_model(tmp_path: Path, kept: str) -> None:
    stored, exact = published()
    folder = write(tmp_path, stored)
    with kernels_everywhere() if kept == "int4" else nullcontext():
        target = load_target(folder, torch.float32, CPU)
    mixture = target.get_submodule("layers.1.mlp")
    assert isinstance(mixture, SparseMlp)
    assert isinstance(mixture.gate_up, Packed) is (kept == "int4")
    wanted = Llama(SHAPE, Tensors(exact), torch.empty(0))
    prompt = torch.randint(0, 64, (2, 19), generator=torch.Generator().manual_seed(3))
    assert Session(target, rows=2).logits(prompt).equal(Session(wanted, rows=2).logits(prompt))


def test_parts_of_an_int4_tensor_that_lack_or_disagree_are_named(tmp_path: Path) -> None:
    stored, _ = published()
    name = f"language_model.model.{FIRST}"
    others = {key: value for key, value in stored.items() if key != f"{name}_scale"}
    cases: dict[str, Named] = {
        rf"INT4 tensor {FIRST}_packed has no {FIRST}_scale": others,
        rf"{FIRST}_packed unpacks to \[64, 32\], its shape says \[64, 31\]": stored
        | {f"{name}_shape": torch.tensor([64, 31])},
        rf"{FIRST}_packed is not INT4 with a scale a group": stored
        | {f"{name}_scale": torch.ones(64, 5)},
        rf"tensor {FIRST} is 64 x 24, not 64 x 32": stored
        | {f"{name}_packed": stored[f"{name}_packed"][:, :3].contiguous()},
        rf"holds tensor {FIRST}_zero_point": stored | {f"{name}_zero_point": torch.ones(1)},
    }
    for number, (said, tensors) in enumerate(cases.items()):
        with pytest.raises(ModelError, match=said):
            load_target(write(tmp_path / str(number), tensors), torch.float32, CPU)


def test_latents_that_no_kernel_takes_are_refused_before_weights_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path, published()[0])
    text = TEXT | SMALL | {"qk_rope_head_dim": 8}
    (folder / "config.json").write_text(json.dumps(SEEING | {"text_config": text}))
    said = r"has latents of 32 \+ 8 numbers; kernels take powers of two"
    with pytest.raises(ModelError, match=said) as caught:
        load_target(folder, torch.bfloat16, torch.device("cuda"))
    assert caught.value.hint == "give --device cpu"


def test_a_kernels_experts_are_all_int4_or_none(tmp_path: Path) -> None:
    stored, _ = published()
    other = f"language_model.model.{FIRST}".replace("experts.0", "experts.1")
    floats = {key: value for key, value in stored.items() if not key.startswith(other)}
    folder = write(tmp_path, floats | {other: torch.ones(64, 32)})
    said = "as floats, other experts in INT4"
    with kernels_everywhere(), pytest.raises(ModelError, match=said):
        load_target(folder, torch.float32, CPU)
    load_target(folder, torch.float32, CPU)

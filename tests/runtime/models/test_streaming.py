"""Loading needs the memory of what it makes, and little beyond, however many tensors there are."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ddtree.models.build import TENTHS, build_all
from ddtree.models.errors import ModelError
from ddtree.models.folder import INDEX
from ddtree.models.hf_config import target_shape
from ddtree.models.llama import target_shapes
from ddtree.models.load import load_target
from tests.checkout import ROOT
from tests.runtime.models.session import CPU
from tests.runtime.models.test_folder import CONFIG as LLAMA
from tests.runtime.models.test_folder import SHAPES, TENSORS, write

MIXTURE: dict[str, Any] = LLAMA | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 128,
    "num_hidden_layers": 10,
    "head_dim": 32,
    "num_experts": 80,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 64,
    "norm_topk_prob": True,
}
SHARDS = 6
SLACK = 12 << 20  # bytes: heaps of the reading threads, a layer's stack, a tensor a thread


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """2,400 experts' tensors in shards, as bfloat16: 38 MB that become 79 MB of float32."""
    folder = tmp_path_factory.mktemp("mixture")
    (folder / "config.json").write_text(json.dumps(MIXTURE))
    shapes = target_shapes(target_shape(folder, MIXTURE))
    weight_map: dict[str, str] = {}
    for i in range(SHARDS):
        part = dict(list(shapes.items())[i::SHARDS])
        name = f"model-{i}.safetensors"
        save_file({n: torch.zeros(shape).bfloat16() for n, shape in part.items()}, folder / name)
        weight_map |= dict.fromkeys(part, name)
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    yield folder


def loaded(folder: Path, rank: int, size: int, more: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.runtime.models.loading", str(folder)]
        + [str(number) for number in (rank, size, more)],
        cwd=ROOT,
        env=os.environ
        | {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("size", [1, 2])
def test_it_needs_the_memory_of_its_share_and_not_once_more(folder: Path, size: int) -> None:
    shapes = target_shapes(target_shape(folder, MIXTURE))
    share = sum(torch.Size(shape).numel() for shape in shapes.values()) * 4 // size
    assert share > 1.5 * SLACK
    enough = loaded(folder, size - 1, size, share + SLACK)
    assert enough.returncode == 0, enough.stderr
    less = loaded(folder, size - 1, size, share - SLACK)
    assert less.returncode != 0
    assert "memory" in less.stderr.lower()


def test_whatever_is_wrong_is_said_at_once_and_before_a_weight_is_read(tmp_path: Path) -> None:
    down, up = "layers.0.mlp.down_proj.weight", "layers.1.mlp.up_proj.weight"
    tensors = {name: tensor for name, tensor in TENSORS.items() if name != down}
    tensors[up] = torch.ones(3, 3)
    tensors["norm.weight"] = torch.ones(32, dtype=torch.int64)  # only reading would tell
    tensors |= {f"layers.0.extra.{i}.weight": torch.ones(1) for i in range(9)}
    with pytest.raises(ModelError) as caught:
        load_target(write(tmp_path / "m", tensors), torch.float32, CPU)
    assert f"lacks tensor {down}" in caught.value.what
    assert f"tensor {up} is 3 x 3, not 48 x 32" in caught.value.what
    assert "layers.0.extra.3.weight and 5 more" in caught.value.what


def test_more_wrong_shapes_than_a_line_holds_are_counted(tmp_path: Path) -> None:
    wrong = {name: torch.ones(1, 2) for name in SHAPES}
    with pytest.raises(ModelError, match=rf"not .*; {len(SHAPES) - 4} more have another shape"):
        load_target(write(tmp_path / "m", wrong), torch.float32, CPU)


def test_the_log_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ddtree.models"):
        assert build_all(lambda i: i * i, 61, CPU) == [i * i for i in range(61)]
    told = [record.__dict__["fields"]["layers"] for record in caplog.records]
    assert len(told) == TENTHS
    assert told[-1] == 61


def test_the_first_layer_that_fails_ends_it() -> None:
    def build(index: int) -> int:
        if index >= 3:
            raise ModelError("m", f"layer {index} is bad")
        return index

    with pytest.raises(ModelError, match="layer 3 is bad"):
        build_all(build, 50, CPU)

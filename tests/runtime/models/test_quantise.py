"""Eight bits with a scale a row: how near, how small, and that the bundled asset is that."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from ddtree.models.dflash import drafter_shapes
from ddtree.models.folder import SCALE, SINGLE, FolderWeights
from ddtree.models.load import ASSET, load_drafter, open_drafter, open_target
from ddtree.models.mask_embedding import FILE as MASK
from ddtree.models.mask_embedding import mask_embedding
from ddtree.models.quantise import main, quantise_folder, quantise_rows
from tests.runtime.models.session import CPU
from tests.runtime.models.tensors import random_tensors
from tests.runtime.models.test_hf_config import DRAFTER


@given(st.integers(0, 2**31), st.floats(1e-6, 1e6))
def test_no_weight_moves_by_more_than_half_a_step_of_its_row(seed: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(5, 16, generator=generator) * size
    whole, scale = quantise_rows(weight)
    assert whole.dtype == torch.int8
    error = (whole.float() * scale.unsqueeze(1) - weight).abs()
    assert (error <= scale.unsqueeze(1) * 0.5001).all()
    assert (whole.abs().amax(1) == 127).all()


def test_a_row_of_zeros_stays_zero() -> None:
    whole, scale = quantise_rows(torch.zeros(2, 8))
    assert not whole.any()
    assert not scale.any()


def drafter_folder(folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps(DRAFTER))
    tensors = random_tensors(drafter_shapes(open_drafter(folder)), seed=2).tensors
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, folder / SINGLE)
    return folder


def test_a_quantised_drafter_loads_and_its_norms_are_untouched(tmp_path: Path) -> None:
    source, small = drafter_folder(tmp_path), tmp_path / "int8"
    assert main([str(source), str(small)]) == 0
    exact, rough = FolderWeights(source), FolderWeights(small)
    assert exact.shapes == rough.shapes
    for name, shape in exact.shapes.items():
        wanted, found = exact.read(name).float(), rough.read(name).float()
        near = 0.0 if len(shape) == 1 else 0.02
        assert (wanted - found).norm() <= near * wanted.norm()
    assert (small / SINGLE).stat().st_size < 0.7 * (source / SINGLE).stat().st_size


def test_quantising_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    source = drafter_folder(tmp_path)
    for name in ("a", "b"):
        quantise_folder(source, tmp_path / name)
    assert (tmp_path / "a" / SINGLE).read_bytes() == (tmp_path / "b" / SINGLE).read_bytes()


def test_a_mask_embedding_of_its_own_comes_along(tmp_path: Path) -> None:
    source = drafter_folder(tmp_path)
    vector = torch.randn(open_drafter(source).layers.hidden_size)
    torch.save(vector, source / MASK)
    quantise_folder(source, tmp_path / "int8")
    found = mask_embedding(tmp_path / "int8", open_drafter(source))
    assert found is not None
    assert found.equal(vector)


def test_what_is_no_drafter_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**DRAFTER, "architectures": ["Other"]}))
    save_file({"norm.weight": torch.ones(1)}, tmp_path / SINGLE)
    assert main([str(tmp_path), str(tmp_path / "int8")]) == 3
    assert "is no DFlash drafter" in capsys.readouterr().err
    assert main([]) == 2


def test_the_bundled_drafter_is_eight_bits_and_fits_smollm2(smollm2_gguf: Path) -> None:
    size = sum(entry.stat().st_size for entry in os.scandir(ASSET))
    assert size <= 20_000_000
    drafter = load_drafter("bundled", open_target(smollm2_gguf).shape, torch.float32, CPU)
    assert drafter.shape.depth == 15
    stored = FolderWeights(ASSET)
    matrices = [name for name, shape in stored.shapes.items() if len(shape) == 2]
    assert len(matrices) == 5 * 7 + 1
    assert all(name + SCALE in stored._at for name in matrices)

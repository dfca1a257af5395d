"""State files: small, whole or absent, and the same when they are written again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ddtree.models.errors import ModelError
from ddtree.train import state
from ddtree.train.state import Progress


def weights(seed: int) -> state.Weights:
    generator = torch.Generator().manual_seed(seed)
    return {
        "a.weight": torch.randn(40, 64, generator=generator) / 50,
        "b.weight": torch.randn(300, 16, generator=generator) / 50,
        "norm.weight": torch.randn(64, generator=generator),
    }


def near(average: state.Weights) -> state.Weights:
    """As far away as some hundred steps go."""
    noise = weights(9)
    return {name: weight + noise[name] / 20 for name, weight in average.items()}


def test_weights_come_back_to_15_bits_and_their_average_to_8(tmp_path: Path) -> None:
    average = weights(1)
    exact = near(average)
    progress = Progress({}, step=7)
    state.save(tmp_path, progress, exact, average)
    found, found_average = state.load(tmp_path, progress)
    for name, weight in exact.items():
        if weight.dim() == 1:
            assert found_average[name].equal(average[name])
            continue
        row = weight.abs().amax(1, keepdim=True)
        assert ((found_average[name] - average[name]).abs() <= row / 200).all()
        assert ((found[name] - weight).abs() <= row / 2000).all()


def test_what_was_loaded_is_saved_as_it_was(tmp_path: Path) -> None:
    progress = Progress({}, step=7)
    state.save(tmp_path, progress, near(weights(1)), weights(1))
    first = state.load(tmp_path, progress)
    state.save(tmp_path, progress, *first)
    for before, after in zip(first, state.load(tmp_path, progress), strict=True):
        for name in before:
            torch.testing.assert_close(before[name], after[name], rtol=0, atol=1e-6)


def test_a_state_has_two_bytes_a_weight(tmp_path: Path) -> None:
    large = {"w": torch.randn(2000, 1000)}
    progress = Progress({}, step=1)
    state.save(tmp_path, progress, large, large)
    assert (tmp_path / progress.state).stat().st_size < 2.02 * 2_000_000


def test_only_the_newest_state_is_kept(tmp_path: Path) -> None:
    progress = Progress({"seed": 3}, history=[{"step": 5.0, "score": 1.5}])
    for step in (5, 10):
        state.save(tmp_path, replace(progress, step=step), weights(1), weights(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "state-10.safetensors"]
    assert state.load_progress(tmp_path) == replace(progress, step=10)


def test_a_state_that_was_not_carried_along_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"state-3\.safetensors: cannot be read") as caught:
        state.load(tmp_path, Progress({}, step=3))
    assert caught.value.hint is not None


def test_another_file_of_that_name_is_no_progress(tmp_path: Path) -> None:
    assert state.load_progress(tmp_path) is None
    (tmp_path / state.RUN).write_text('{"speed": 3}')
    with pytest.raises(ModelError, match="is no run's progress"):
        state.load_progress(tmp_path)

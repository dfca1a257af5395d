"""The recipe on the device: compiled it learns what it learns uncompiled, and a run ends well."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ddtree.train.run import Place, Run, resumed, train
from ddtree.train.state import load_progress
from tests.runtime.train.tiny_run import SHAPE, Letters, recipe, write_target

pytestmark = pytest.mark.gpu
WIDE = replace(SHAPE, hidden_size=128, head_dim=64)  # the kernels' heads are 64 or 128 wide


def place(out: Path, *, compiled: bool) -> Place:
    device = torch.device("cuda")
    return Place(out, device, torch.bfloat16, compiled=compiled, say=lambda _: None)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_run_learns(tmp_path: Path, compiled: object) -> None:
    made = recipe(write_target(tmp_path / "target", WIDE))
    assert train(made, Letters(), place(tmp_path / "out", compiled=bool(compiled)))
    progress = load_progress(tmp_path / "out")
    assert progress is not None
    assert progress.best > 1.5
    assert progress.history[-1]["score"] > progress.history[0]["score"]
    assert (tmp_path / "out" / "drafter-8bit" / "README.md").is_file()


def test_a_compiled_step_has_the_loss_of_a_plain_one(tmp_path: Path) -> None:
    made = recipe(write_target(tmp_path / "target", WIDE))
    losses = []
    for compiled in (False, True):
        run = Run(made, Letters(), place(tmp_path, compiled=compiled), resumed(made, tmp_path))
        held = run.gatherer.held_out()
        run._restore(held)
        corpus = run.gatherer.round(0)
        run.learner.leg(corpus, range(20), lambda _, seen: losses.append(seen.loss), 20)
    assert losses[1] == pytest.approx(losses[0], rel=0.02)

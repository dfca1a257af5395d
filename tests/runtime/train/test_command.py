"""`python -m ddtree train`: flags, the recipe's file, and what the shell is told."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path

import pytest

from ddtree.cli import main
from ddtree.train import command
from ddtree.train.command import HELP
from ddtree.train.learn import DivergedError
from ddtree.train.recipe import Recipe
from ddtree.train.run import RecipeError
from ddtree.train.state import load_best, load_progress
from tests.runtime.train.tiny_run import Letters


def test_every_part_of_a_recipe_is_a_flag_with_a_word_of_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert set(HELP) == {field.name for field in fields(Recipe)}
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')}" in said for name in HELP)


@pytest.mark.parametrize(
    ("file", "flags", "said"),
    [
        (None, [], "model is missing"),
        ('{"model": "m", "colour": 1}', [], "colour is no part of a recipe"),
        ("[1]", [], "is not a JSON object"),
        ("{", [], "is not JSON"),
        ('{"model": "m"}', ["--rounds", "0"], "rounds must be positive"),
    ],
)
def test_a_recipe_that_is_wrong_ends_with_2(
    file: str | None,
    flags: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = []
    if file is not None:
        (tmp_path / "recipe.json").write_text(file)
        named = ["--recipe", str(tmp_path / "recipe.json")]
    assert main(["train", "--out", str(tmp_path / "out"), *named, *flags]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_not_there_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent.gguf")
    assert main(["train", "--model", absent, "--out", str(tmp_path / "out")]) == 3
    assert "absent.gguf: does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "goes on from the last checkpoint"),
        (RuntimeError("CUDA out of memory"), 4, "lower `--rows` or `--tokens`"),
        (DivergedError("the loss is nan at step 3"), 1, "lower `--rate`"),
        (RecipeError("x holds a run of another recipe"), 2, "holds a run of another recipe"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_how_a_run_ends_is_told_by_a_code_and_a_word(
    fault: BaseException,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> None:
        raise fault

    monkeypatch.setattr("ddtree.train.run.train", fails)
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    given = parser.parse_args(["--model", "m", "--out", str(tmp_path), "--threads", "1"])
    assert command.run(given, lambda _: Letters()) == code
    assert said in capsys.readouterr().err


SMOKE = {
    "rounds": 1,
    "tokens": 2000,
    "rows": 24,
    "prompt_tokens": 96,
    "answer_tokens": 24,
    "layers": 1,
    "block_size": 8,
    "steps": 40,
    "batch": 4,
    "anchors": 8,
    "warm_up": 10,
    "settle": 5,
    "checkpoint_steps": 20,
    "held_out": 2,
}


@pytest.mark.slow
def test_two_minutes_with_the_real_target_learn_something(
    smollm2_gguf: Path, tmp_path: Path
) -> None:
    (tmp_path / "recipe.json").write_text(json.dumps(SMOKE | {"model": str(smollm2_gguf)}))
    where = ["--recipe", str(tmp_path / "recipe.json"), "--out", str(tmp_path / "out")]
    assert main(["train", *where, "--threads", "1"]) == 0
    progress = load_progress(tmp_path / "out")
    assert progress is not None
    first, last = progress.history
    assert last["score"] > first["score"]
    assert last["score"] > 1.1
    assert load_best(tmp_path / "out")["fc.weight"].shape == (576, 576)
    assert "SmolLM2-135M-Instruct" in (tmp_path / "out" / "drafter-8bit" / "README.md").read_text()

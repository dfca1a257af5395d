"""The modes of a pair side by side, and the command line of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddtree.cli import main
from ddtree.stepbench.command import texts_in
from ddtree.stepbench.modes import Variant, parse
from ddtree.stepbench.shapes import PAIRS
from tests.runtime.stepbench.test_measure import small


def test_modes_are_read_as_they_are_named() -> None:
    assert parse("ar") == Variant("ar")
    assert parse("chain/eager") == Variant("chain", graphs=False)
    assert parse("ddtree:16") == Variant("ddtree", 16)
    assert parse("adaptive:64") == Variant("ddtree", 64, adaptive=True)
    for text in ("ar", "chain/eager", "ddtree:16", "adaptive:64", "ddtree:1"):
        assert parse(text).name == text


@pytest.mark.parametrize("text", ["", "tree", "ar:4", "ddtree", "ddtree:x", "ar/lazy", "ddtree:-1"])
def test_other_modes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="none of ar, chain"):
        parse(text)


def test_texts_are_found_in_lists_and_objects() -> None:
    document = {"licence": "CC0", "code": ["a", "b"], "prompts": [{"text": "c", "id": "x"}, 7]}
    assert texts_in(document) == ["a", "b", "c"]


def test_modes_of_the_real_pair_commit_the_same_tokens(
    smollm2_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts, out = tmp_path / "prompts.json", tmp_path / "out.json"
    prompts.write_text('["What is the capital of France?", "Count to five."]')
    argv = ["bench", "modes", "--model", str(smollm2_gguf), "--prompts", str(prompts)]
    limits = ["--max-tokens", "12", "--repeats", "1", "--dtype", "float32", "--ignore-eos"]
    assert main([*argv, *limits, "--modes", "ar,ddtree:4", "--json", str(out)]) == 0
    assert "0/2" in capsys.readouterr().out
    document = json.loads(out.read_text())
    ar, tree = document["modes"]
    assert ar["accept"] is None and tree["accept"] > 1
    assert ar["differing"] == tree["differing"] == 0
    assert tree["repeats"][0]["tokens"] == 24
    assert tree["decode_tok_s"] > 0 and tree["output_tok_s"] > 0


def test_steps_are_timed_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PAIRS, "small", small())
    out = tmp_path / "steps.json"
    shape = ["--pair", "small", "--batch", "1,2", "--budget", "0,4", "--context", "20"]
    assert main(["bench", "step", *shape, "--repeats", "2", "--json", str(out)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert [row["case"]["budget"] for row in json.loads(out.read_text())["steps"]] == [0, 4, 0, 4]


def test_what_cannot_be_timed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "step", "--pair", "gpt-9"]) == 2
    assert "no shape `gpt-9`; there are smollm2-135m" in capsys.readouterr().err
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    assert main(["bench", "modes", "--model", "m.gguf", "--prompts", str(empty)]) == 2
    assert "holds no texts" in capsys.readouterr().err

"""What cannot be served says why with its exit code, wherever it is found: before the engine's
process has begun to load, in it, or by the first token."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from ddtree.config import EngineConfig
from ddtree.server.exits import LoadError
from ddtree.server.load import load_engine, load_words
from tests.runtime.server.test_ranks import argv, write_bytes_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bytes_model(tmp_path_factory.mktemp("load") / "bytes")


def test_words_are_read_without_the_weights(model: Path) -> None:
    words = load_words(str(model))
    assert words.tokenizer.encode("ab", special=True) == words.tokenizer.encode("ab", special=False)
    assert (words.chat, words.dialect.name) == (None, "plain")
    with pytest.raises(LoadError, match="none: does not exist") as caught:
        load_words(str(model / "none"))
    assert caught.value.exit_code == 3


def test_what_does_not_fit_says_what_to_lower(model: Path) -> None:
    with pytest.raises(LoadError, match="out of memory") as caught:
        load_engine(EngineConfig(str(model), device="cpu", kv_tokens=10**15))
    assert caught.value.exit_code == 4
    assert "lower `--kv-tokens`" in str(caught.value.hint)


def test_a_drafter_that_is_not_there_cannot_be_loaded(model: Path) -> None:
    config = EngineConfig(str(model), device="cpu", mode="ddtree", drafter=str(model / "none"))
    with pytest.raises(LoadError) as caught:
        load_engine(config)
    assert caught.value.exit_code == 3
    with pytest.raises(LoadError):
        load_engine(replace(config, model=str(model / "none")))


def test_a_poisoned_checkpoint_is_never_ready(model: Path) -> None:
    (file,) = model.glob("*.safetensors")
    tensors = load_file(file)
    next(iter(tensors.values())).fill_(float("nan"))
    save_file(tensors, file)
    served = subprocess.run(
        [*argv("serve", model), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert served.returncode == 3
    said = "no token can be generated: the model's logits are not finite (NaN or infinity)"
    assert said in served.stderr
    assert " info loading layers=" in served.stderr, "from the engine's own process"

"""Kimi's kind of vocabulary gives the ids that tiktoken itself gives."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from ddtree.models.errors import ModelError
from ddtree.server.bytelevel import byte_of_symbol
from ddtree.server.tiktoken_vocabulary import PATTERN, RESERVED
from ddtree.server.tokenizer import Tokenizer, load_tokenizer

CORPUS = [
    "The quick brown fox jumps over the lazy dog; it's what they'd've said: 12345 times.",
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n\n",
    "月之暗面的模型会说中文、也会说 English。HTTPServer naïve Größe ПРИВЕТ привет\t\r\n",
] * 4


def kimi_folder(folder: Path) -> dict[bytes, int]:
    """A small model's folder as Kimi's is, without weights; its ranks."""
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(CORPUS, trainer)
    byte = byte_of_symbol()
    ranks = {bytes(byte[s] for s in token): rank for token, rank in trained.get_vocab().items()}
    lines = [f"{base64.b64encode(token).decode()} {rank}" for token, rank in ranks.items()]
    (folder / "tiktoken.model").write_text("\n".join(lines) + "\n")
    first = len(ranks)
    added = {
        str(first): {"content": "[BOS]", "special": True},
        str(first + 2): {"content": "<|im_end|>", "special": True},
        str(first + 9): {"content": "<|tool_call_begin|>", "special": True},
        str(first + 22): {"content": "<think>", "special": False},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": first + 1}))
    return ranks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kimi")


@pytest.fixture(scope="module")
def ranks(folder: Path) -> dict[bytes, int]:
    return kimi_folder(folder)


@pytest.fixture(scope="module")
def tokenizer(folder: Path, ranks: dict[bytes, int]) -> Tokenizer:
    assert ranks
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def reference(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding("kimi", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


WORDS = st.lists(st.sampled_from(" ".join(CORPUS).split(" "))).map(" ".join)


@given(text=st.text() | WORDS)
def test_ids_are_those_of_tiktoken(
    tokenizer: Tokenizer, reference: tiktoken.Encoding, text: str
) -> None:
    wanted = reference.encode(text, disallowed_special=())
    assert tokenizer.encode(text, special=False) == wanted
    assert tokenizer.decode(wanted) == text


def test_special_tokens_follow_the_ranks(tokenizer: Tokenizer, ranks: dict[bytes, int]) -> None:
    first = len(ranks)
    assert tokenizer.vocab_size == first + RESERVED
    assert tokenizer.encode("[BOS]<|im_end|>", special=True) == [first, first + 2]
    assert tokenizer.eos_ids == {first + 1, first + 2}
    assert tokenizer.token_bytes(first + 3).decode() == f"<|reserved_token_{first + 3}|>"


def test_markers_of_calls_and_thoughts_are_heard(
    tokenizer: Tokenizer, ranks: dict[bytes, int]
) -> None:
    first = len(ranks)
    shown = tokenizer.detokenizer().push([first, first + 2, first + 9, first + 22])
    assert shown == "<|tool_call_begin|><think>"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("YQ== 0\nYg== 2\n", "gaps"),
        ("YQ==\n", "cannot be read"),
        ("a! 0\n", "cannot be read"),
        ("", "gaps"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, written: str, said: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tiktoken.model").write_text(written)
    with pytest.raises(ModelError, match=rf"tiktoken\.model: .*{said}"):
        load_tokenizer(tmp_path)


def test_a_token_out_of_its_place_is_named(tmp_path: Path) -> None:
    kimi_folder(tmp_path)
    config = {"added_tokens_decoder": {"3": {"content": "<x>"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"names token 3, outside"):
        load_tokenizer(tmp_path)

"""Token for token against transformers reading the same GGUF, and against SmolLM2's own rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from ddtree.models.errors import ModelError
from ddtree.models.gguf_file import GgufFile, open_gguf_file
from ddtree.server.gguf_vocabulary import build_tokenizer
from ddtree.server.tokenizer import Tokenizer, from_gguf, load_tokenizer

TEXTS = {
    "nothing": "",
    "a word": "hello",
    "code": 'def f(x):\n    """Doc."""\n    return x**2 if x >= 10 else [i for i in range(x)]\n',
    "tabs": "if (a) {\n\t\treturn b;\n\t}\n",
    "digits": "In 1984, 3.14159 x 2 = 6.28318; call 555-1234 or 0xFF",
    "other digits": "٣٤٥ ½ ² Ⅷ 四",
    "spaces before digits": "a  1   23\n  4",
    "leading spaces": "   three before",
    "trailing spaces": "three after   ",
    "newlines": "\n\none\n \n\r\n two\n\n\n",
    "only space": " ",
    "han": "日本語のテキストと中文。",
    "emoji": "👍🏽 family 👨‍👩‍👧 flag 🇫🇷!",
    "combining": "e\u0301 a\u030a\u0323 Z\u0351\u0300algo",
    "right to left": "שלום مرحبا",
    "contractions": "I'm sure they'll say it's we've DON'T",
    "control tokens": "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><file_sep>a <|im_end|> b",
    "nearly control": "<|im_start| |im_end|> <|IM_END|>",
    "nul and friends": "a\x00b\x7f\u200b\ufeffc\u00a0d",
    "long word": "a" * 300,
}
# Here the space goes with a digit unless digits are cut off first, which transformers' reader of
# GGUF files does not do and SmolLM2's own tokenizer does.
APART = ("spaces before digits", "other digits")
# SmolLM2 has no tokens for some bytes, so a few control characters and planes 4 to 11 are lost.
WRITABLE = st.characters(codec="utf-8", exclude_characters="\x04\x06\x13\x14\x16\x1d").filter(
    lambda c: not 0x40000 <= ord(c) <= 0xBFFFF
)


@pytest.fixture(scope="module")
def ours(smollm2_gguf: Path) -> Tokenizer:
    return load_tokenizer(smollm2_gguf)


@pytest.fixture(scope="module")
def original(reference_tokenizer: Any) -> Callable[[str], list[int]]:
    """SmolLM2's own tokenizer.json cuts single digits off before GPT-2's rule; transformers'
    reader of GGUF files leaves that out."""
    inner = type(reference_tokenizer.backend_tokenizer).from_str(
        reference_tokenizer.backend_tokenizer.to_str()
    )
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), inner.pre_tokenizer]
    )

    def encode(text: str) -> list[int]:
        return list(inner.encode(text, add_special_tokens=False).ids)

    return encode


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_are_the_original_tokenizers(
    name: str, ours: Tokenizer, original: Callable[[str], list[int]]
) -> None:
    assert ours.encode(TEXTS[name], special=True) == original(TEXTS[name])


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in APART])
def test_tokens_are_transformers_tokens(
    name: str, ours: Tokenizer, reference_tokenizer: Any
) -> None:
    assert ours.encode(TEXTS[name], special=True) == reference_tokenizer(TEXTS[name]).input_ids


@pytest.mark.parametrize("name", APART)
def test_transformers_reader_differs_where_it_cuts_digits_late(
    name: str, ours: Tokenizer, reference_tokenizer: Any
) -> None:
    assert ours.encode(TEXTS[name], special=True) != reference_tokenizer(TEXTS[name]).input_ids


def test_digits_stand_alone(ours: Tokenizer) -> None:
    assert [ours.decode([i]) for i in ours.encode("x 12345", special=True)] == [*"x 12345"]


@pytest.mark.parametrize("name", TEXTS)
def test_what_was_encoded_is_decoded(name: str, ours: Tokenizer, reference_tokenizer: Any) -> None:
    ids = ours.encode(TEXTS[name], special=True)
    assert ours.decode(ids) == TEXTS[name]
    assert reference_tokenizer.decode(ids, skip_special_tokens=False) == TEXTS[name]


@settings(max_examples=200, deadline=None)
@given(st.text(WRITABLE, max_size=80))
def test_any_text_comes_back_whole_and_streamed(ours: Tokenizer, text: str) -> None:
    ids = ours.encode(text, special=False)
    assert ours.decode(ids) == text
    stream = ours.detokenizer()
    pieces = [*(stream.push([i]) for i in ids), stream.flush()]
    assert "".join(pieces) == text
    assert sum(piece.count("\ufffd") for piece in pieces) == text.count("\ufffd")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["<|im_end|>", "<|im_start|>", *"ab é7語 \n"]), max_size=20))
def test_control_tokens_anywhere_are_the_original_tokenizers(
    ours: Tokenizer, original: Callable[[str], list[int]], parts: list[str]
) -> None:
    text = "".join(parts)
    ids = ours.encode(text, special=True)
    assert ids == original(text)
    assert ours.decode(ids) == text


def test_a_character_the_model_cannot_write_is_lost_as_in_the_original(
    ours: Tokenizer, original: Callable[[str], list[int]]
) -> None:
    assert ours.encode("a\x04b", special=True) == original("a\x04b") == [81, 82]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 49151), max_size=40), st.data())
def test_a_stream_says_what_the_whole_says_however_it_is_cut(
    ours: Tokenizer, reference_tokenizer: Any, ids: list[int], data: st.DataObject
) -> None:
    stream, pieces, at = ours.detokenizer(), [], 0
    while at < len(ids):
        size = data.draw(st.integers(1, 5))
        pieces.append(stream.push(ids[at : at + size]))
        at += size
    pieces.append(stream.flush())
    assert "".join(pieces) == reference_tokenizer.decode(ids, skip_special_tokens=True)


def test_half_a_character_waits_for_its_other_half(ours: Tokenizer) -> None:
    stream = ours.detokenizer()
    ids = ours.encode("😀語", special=True)
    pieces = [stream.push([i]) for i in ids]
    assert len(ids) > 2
    assert [piece for piece in pieces if piece] == ["😀", "語"]


def test_a_character_that_never_ends_is_said_to_be_broken(ours: Tokenizer) -> None:
    stream = ours.detokenizer()
    assert stream.push(ours.encode("😀", special=True)[:1]) == ""
    assert stream.flush() == "\ufffd"


def test_control_tokens_are_text_unless_meant(ours: Tokenizer) -> None:
    assert ours.encode("<|im_end|>", special=True) == [2]
    assert 2 not in ours.encode("<|im_end|>", special=False)


def test_a_stream_leaves_control_tokens_out(ours: Tokenizer) -> None:
    stream = ours.detokenizer()
    assert stream.push(ours.encode("a<|im_end|>b", special=True)) == "ab"


def test_ends_and_size_come_from_the_metadata(ours: Tokenizer) -> None:
    assert ours.eos_ids == frozenset({2})
    assert ours.vocab_size == 49152


def test_a_token_beyond_the_vocabulary_is_silent(ours: Tokenizer) -> None:
    assert ours.decode([10**9]) == ""


def test_the_same_tokenizer_from_a_folder(
    ours: Tokenizer, reference_tokenizer: Any, tmp_path: Path, original: Callable[[str], list[int]]
) -> None:
    reference_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 2}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2]}))
    folder = load_tokenizer(tmp_path)
    for text in TEXTS.values():
        assert folder.encode(text, special=True) == reference_tokenizer(text).input_ids
        assert folder.decode(folder.encode(text, special=True)) == text
    assert folder.eos_ids == frozenset({0, 2})


def test_a_folder_without_a_usable_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json: cannot be read"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"decoder": {"type": "Metaspace"}}))
    with pytest.raises(ModelError, match="is no byte-level tokenizer"):
        load_tokenizer(tmp_path)


def changed(file: GgufFile, **changes: object) -> GgufFile:
    names = {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return GgufFile(file.path, {**file.metadata, **names}, [])


def test_a_model_that_wants_a_first_token_gets_it_once(smollm2_gguf: Path) -> None:
    file = open_gguf_file(smollm2_gguf)
    wants = from_gguf(changed(file, add_bos_token=True))
    assert wants.encode("a", special=True) == [1, 81]
    assert wants.encode("<|im_start|>a", special=True) == [1, 81]
    assert wants.encode("a", special=False) == [81]


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe", "qwen2"])
def test_other_ways_to_split_text_decode_back(smollm2_gguf: Path, pre: str) -> None:
    tokenizer = from_gguf(changed(open_gguf_file(smollm2_gguf), pre=pre, add_bos_token=False))
    text = TEXTS["code"] + TEXTS["digits"] + TEXTS["han"]
    assert tokenizer.decode(tokenizer.encode(text, special=True)) == text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "llama"}, "tokenizer of kind 'llama'"),
        ({"pre": "deepseek-llm"}, "splits text by 'deepseek-llm'"),
        ({"tokens": None}, r"no usable tokenizer\.ggml\.tokens"),
        ({"token_type": [1, 1]}, "49152 tokens but 2 token types"),
        ({"merges": ["Ġ nonsense-"]}, "into a token that it does not have"),
    ],
)
def test_a_vocabulary_that_does_not_hang_together_is_refused(
    smollm2_gguf: Path, change: dict[str, object], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        build_tokenizer(changed(open_gguf_file(smollm2_gguf), **change))

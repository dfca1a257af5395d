"""A GGUF's vocabulary as a byte-level BPE tokenizer, the way llama.cpp reads the same metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ddtree.models.errors import ModelError
from ddtree.models.gguf_file import GgufFile

# token_type of a GGUF
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4

_LETTERS_AND_REST = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Splitting:
    """How text is cut before the merges are applied."""

    digits: Literal["single", "any"] = "any"  # GPT-2's rule, digits first if `single`
    regex: str | None = None  # instead of GPT-2's rule
    ignore_merges: bool = False  # a piece that is a token is taken whole
    add_bos: bool = False  # where the file does not say
    nfc: bool = False


SPLITTING: dict[str, Splitting] = {  # by tokenizer.ggml.pre
    "gpt-2": Splitting(),
    "smollm": Splitting(digits="single"),
    "llama-bpe": Splitting(regex=_LETTERS_AND_REST % "{1,3}", ignore_merges=True, add_bos=True),
    "qwen2": Splitting(regex=_LETTERS_AND_REST % "", nfc=True),
}


def splitting_of(file: GgufFile) -> Splitting:
    kind, pre = file.text("tokenizer.ggml.model"), file.text("tokenizer.ggml.pre")
    if kind != "gpt2":
        raise ModelError(
            file.path,
            f"has a tokenizer of kind {kind!r}; only 'gpt2' (byte-level BPE) can be read",
            hint="use the model's safetensors folder with its tokenizer.json",
        )
    if pre not in SPLITTING:
        raise ModelError(
            file.path,
            f"splits text by {pre!r}, which is not known",
            hint=f"known: {', '.join(SPLITTING)}",
        )
    return SPLITTING[pre]


def build_tokenizer(file: GgufFile) -> Tokenizer:
    """Raises ModelError when the vocabulary is missing or does not hang together."""
    splitting = splitting_of(file)
    tokens: list[str] = _array(file, "tokenizer.ggml.tokens", str)
    kinds: list[int] = _array(file, "tokenizer.ggml.token_type", int)
    if len(kinds) != len(tokens):
        raise ModelError(file.path, f"has {len(tokens)} tokens but {len(kinds)} token types")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = _merges(file, vocabulary)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges=splitting.ignore_merges)
    )
    tokenizer.pre_tokenizer = _pre_tokenizer(splitting)
    if splitting.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(token, special=kind != USER_DEFINED, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind in (UNKNOWN, CONTROL, USER_DEFINED)
        ]
    )
    return tokenizer


def _pre_tokenizer(splitting: Splitting) -> pre_tokenizers.PreTokenizer:
    if splitting.regex is not None:
        split = pre_tokenizers.Split(Regex(splitting.regex), "isolated")
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([split, to_bytes])
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if splitting.digits == "any":
        return gpt2
    # Digits come first: "a  1" is cut as "a", two spaces, "1". Cut by GPT-2's rule alone, the
    # second space would join the digit.
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])


def _merges(file: GgufFile, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for line in _array(file, "tokenizer.ggml.merges", str):
        left, _, right = line.partition(" ")
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise ModelError(file.path, f"merges {line!r} into a token that it does not have")
        merges.append((left, right))
    return merges


def _array(file: GgufFile, key: str, kind: type) -> list[Any]:
    values: Sequence[Any] | None = file.metadata.get(key)
    if not isinstance(values, list) or not values or not isinstance(values[0], kind):
        raise ModelError(file.path, f"has no usable {key}")
    return values

"""Text to token ids and back, from a GGUF's own metadata, or a folder's tokenizer.json or
tiktoken.model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from ddtree.models.errors import ModelError
from ddtree.models.folder_json import optional_json
from ddtree.models.gguf_file import GgufFile, open_gguf_file
from ddtree.models.source import CONFIG, find_source
from ddtree.server import tiktoken_vocabulary
from ddtree.server.bytelevel import Detokenizer, TokenBytes
from ddtree.server.dialect import MARKERS
from ddtree.server.gguf_vocabulary import build_tokenizer, splitting_of

# Ends a turn of a chat whatever the metadata calls the end of a sequence.
TURN_ENDS = ("<|im_end|>", "<|eot_id|>")


@dataclass(frozen=True)
class Ends:
    """Where a text begins and where an answer ends."""

    bos: int | None  # added before every prompt; None: nothing is added
    eos: frozenset[int]


class Tokenizer:
    def __init__(self, inner: tokenizers.Tokenizer, ends: Ends) -> None:
        self._inner = inner
        self._bos = ends.bos
        added = inner.get_added_tokens_decoder()
        turn_ends = (inner.token_to_id(token) for token in TURN_ENDS)
        control = frozenset(
            index
            for index, token in added.items()
            if token.special and token.content not in MARKERS
        )
        self.eos_ids = ends.eos | {i for i in turn_ends if i is not None and i in control}
        self.vocab_size = inner.get_vocab_size(with_added_tokens=True)
        self._bytes = TokenBytes(
            inner.get_vocab(), {i: token.content for i, token in added.items()}, control
        )

    def encode(self, text: str, *, special: bool) -> list[int]:
        """`special`: control tokens written in the text are meant as such, and the text gets the
        model's first token, unless it brings it. Otherwise every character is just text."""
        if not special:
            return list(self._plain.encode(text, add_special_tokens=False).ids)
        ids = list(self._inner.encode(text, add_special_tokens=False).ids)
        if self._bos is not None and ids[:1] != [self._bos]:
            ids.insert(0, self._bos)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Control tokens are written out; `detokenizer` leaves them out."""
        return self._bytes.decode(ids)

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for; it may be part of a character."""
        return self._bytes.of(token)

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self._bytes)

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        plain = tokenizers.Tokenizer.from_str(self._inner.to_str())
        plain.encode_special_tokens = True
        return plain


def load_tokenizer(path: Path | str) -> Tokenizer:
    """The tokenizer of the model at `path`. Raises ModelError."""
    source = find_source(path)
    if source.gguf is not None:
        return from_gguf(open_gguf_file(source.gguf))
    return from_folder(source.folder)


def from_gguf(file: GgufFile) -> Tokenizer:
    add_bos = file.metadata.get("tokenizer.ggml.add_bos_token", splitting_of(file).add_bos)
    named = (f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom"))
    eos = frozenset(int(file.number(key)) for key in named if key in file.metadata)
    bos = int(file.number("tokenizer.ggml.bos_token_id")) if add_bos else None
    return Tokenizer(build_tokenizer(file), Ends(bos, eos))


def from_folder(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file() and (folder / tiktoken_vocabulary.FILE).is_file():
        inner = tiktoken_vocabulary.build_tokenizer(folder)
        return Tokenizer(inner, Ends(None, _folder_eos(folder, inner)))
    try:
        text = path.read_text(encoding="utf-8")
        kind = json.loads(text).get("decoder") or {}
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(path, f"cannot be read: {error}") from error
    if "ByteLevel" not in _kinds(kind):
        raise ModelError(path, "is no byte-level tokenizer, which is the only kind supported")
    inner = tokenizers.Tokenizer.from_str(text)
    first = inner.encode("", add_special_tokens=True).ids
    return Tokenizer(inner, Ends(first[0] if first else None, _folder_eos(folder, inner)))


def _kinds(decoder: dict[str, Any]) -> set[str]:
    return {str(part.get("type")) for part in [decoder, *decoder.get("decoders", ())]}


def _folder_eos(folder: Path, inner: tokenizers.Tokenizer) -> frozenset[int]:
    """Every file that may name the end: generation_config.json knows most, if it is there."""
    named: set[int] = set()
    for name in ("generation_config.json", CONFIG):
        value = optional_json(folder / name).get("eos_token_id")
        ids: Iterable[Any] = value if isinstance(value, list) else [value]
        named |= {index for index in ids if isinstance(index, int)}
    token = optional_json(folder / "tokenizer_config.json").get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    index = inner.token_to_id(content) if isinstance(content, str) else None
    return frozenset(named if index is None else named | {index})

"""Token ids to text, byte by byte: exact, incremental, never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from itertools import repeat


def byte_of_symbol() -> dict[str, int]:
    """Byte-level BPE's alphabet: printable Latin-1 stands for itself, the rest is moved up."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(moved)}


class TokenBytes:
    """What each token stands for. `control` tokens are written by `decode`, never by a stream."""

    def __init__(
        self, vocabulary: Mapping[str, int], added: Mapping[int, str], control: frozenset[int]
    ) -> None:
        alphabet = byte_of_symbol()
        self._bytes = {
            index: bytes(alphabet[symbol] for symbol in token)
            for token, index in vocabulary.items()
            if index not in added and all(symbol in alphabet for symbol in token)
        }
        self._bytes |= {index: text.encode() for index, text in added.items()}
        self._visible = {i: text for i, text in self._bytes.items() if i not in control}

    def of(self, token: int) -> bytes:
        return self._bytes.get(token, b"")

    def decode(self, ids: Sequence[int]) -> str:
        """The whole text; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self._bytes.get(index, b"") for index in ids).decode(errors="replace")

    def visible(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._visible.get, ids, repeat(b"")))


class Detokenizer:
    """The text of one answer as it grows. What may still become a character is held back."""

    def __init__(self, table: TokenBytes) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_ids: Sequence[int]) -> str:
        return self._decoder.decode(self._table.visible(token_ids))

    def flush(self) -> str:
        """The end: what was held back and never became a character is U+FFFD."""
        return self._decoder.decode(b"", final=True)

"""The chunks of a request as two columns: a run has millions, and an object each is too much."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, overload

_KEYS: Final = 2


class Chunk(NamedTuple):
    at: float  # seconds since the request was sent
    tokens: int  # new tokens this chunk brought


class Chunks(Sequence[Chunk]):
    """Reads as a tuple of `Chunk`, takes 16 bytes for each."""

    __slots__ = ("at", "tokens")

    def __init__(self, at: Iterable[float] = (), tokens: Iterable[int] = ()) -> None:
        self.at = array("d", at)
        self.tokens = array("q", tokens)

    @classmethod
    def read(cls, value: object) -> Chunks:
        """From chunks, or from what JSON says of them; `ValueError` for anything else."""
        if isinstance(value, Chunks):
            return value
        if not isinstance(value, list | tuple):
            raise ValueError("is not a list of chunks")
        try:
            if value and isinstance(value[0], Chunk):
                return cls((one.at for one in value), (one.tokens for one in value))
            if set(map(len, value)) - {_KEYS}:
                raise ValueError("a chunk has the keys `at` and `tokens`, and no other")
            return cls(map(itemgetter("at"), value), map(itemgetter("tokens"), value))
        except (TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"a chunk is `at` seconds and `tokens`: {error}") from None

    def __len__(self) -> int:
        return len(self.at)

    def __iter__(self) -> Iterator[Chunk]:
        return map(Chunk, self.at, self.tokens)

    @overload
    def __getitem__(self, place: int) -> Chunk: ...
    @overload
    def __getitem__(self, place: slice) -> Chunks: ...
    def __getitem__(self, place: int | slice) -> Chunk | Chunks:
        if isinstance(place, slice):
            return Chunks(self.at[place], self.tokens[place])
        return Chunk(self.at[place], self.tokens[place])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Chunks):
            return self.at == other.at and self.tokens == other.tokens
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash((self.at.tobytes(), self.tokens.tobytes()))

    def __repr__(self) -> str:
        return f"Chunks({list(self)!r})"


def said(value: object) -> list[dict[str, Any]]:
    """Chunks as JSON has them."""
    chunks = Chunks.read(value)
    return [{"at": at, "tokens": n} for at, n in zip(chunks.at, chunks.tokens, strict=True)]

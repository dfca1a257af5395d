"""A record as text: one JSON document in which every request has a line of its own.

So a long one is written, read and searched request by request, in the memory that one takes.
A record that was written on one line, as earlier ones were, is read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from pydantic_core import from_json

from ddops.spec.record import Record, Trace

LONGEST: Final = 6 << 20  # bytes of a line, which is a request of 200,000 chunks
_OPENING: Final = b',"traces":[\n'
_CLOSING: Final = b"]}\n"
_CHUNKS: Final = b'"chunks":['
_OF_CHUNKS: Final = b'{}":,.0123456789eE+- atokens'
"""All that stands in a list of chunks: what is made of it can hide nothing."""


@dataclass(frozen=True)
class Parts:
    head: bytes  # JSON of the record without its requests
    traces: Iterator[bytes]  # JSON of each request; `ValueError` where the text is not in form


def lines(record: Record) -> Iterator[bytes]:
    head = record.model_dump_json(exclude={"traces"}).encode()
    yield head.removesuffix(b"}") + _OPENING
    for number, trace in enumerate(record.traces, start=1):
        yield trace.model_dump_json().encode() + (b",\n" if number < len(record.traces) else b"\n")
    yield _CLOSING


def parts(file: BinaryIO) -> Parts | None:
    """None for a record in another form; then `file` is at its beginning again."""
    head = file.readline(LONGEST)
    if head.endswith(_OPENING):
        return Parts(head.removesuffix(_OPENING) + b"}", _traces(file))
    file.seek(0)
    return None


def read(file: BinaryIO, *, chunks: bool = True) -> Record:
    """Without `chunks` all is read but when the tokens came, many times faster.

    Raises `ValueError` (pydantic's is one) for what is not a record.
    """
    found = parts(file)
    if found is None:
        record = Record.model_validate_json(file.read())
        return record if chunks else light(record)
    texts = found.traces if chunks else (apart(text)[0] for text in found.traces)
    traces = tuple(map(Trace.model_validate_json, texts))
    if not chunks:
        traces = tuple(map(_light, traces))
    return Record.model_validate({**from_json(found.head), "traces": traces})


def light(record: Record) -> Record:
    return record.model_copy(update={"traces": tuple(map(_light, record.traces))})


def apart(trace: bytes) -> tuple[bytes, bytes]:
    """A request's JSON with an empty list of chunks, which are most of it, and they.

    Where more than numbers and their keys stands in the list, all is left together.
    """
    before, found, after = trace.partition(_CHUNKS)
    chunks = after[: after.find(b"]")]
    if not found or chunks.translate(None, _OF_CHUNKS):
        return trace, b""
    return before + found + after[len(chunks) :], chunks


def together(trace: bytes, chunks: bytes) -> bytes:
    return trace.replace(_CHUNKS, _CHUNKS + chunks, 1)


def _light(trace: Trace) -> Trace:
    return trace.model_copy(update={"chunks": ()}) if trace.chunks else trace


def _traces(file: BinaryIO) -> Iterator[bytes]:
    line = file.readline(LONGEST)
    while line != _CLOSING:
        after = file.readline(LONGEST)
        end = b"\n" if after == _CLOSING else b",\n"
        if not line.endswith(end):
            raise ValueError(f"a line is cut off, or longer than {LONGEST >> 20} MiB")
        yield line.removesuffix(end)
        line = after
    if file.read(1):
        raise ValueError("something follows its end")

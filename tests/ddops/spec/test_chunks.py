"""Chunks are two columns that read as a tuple, and only honest JSON becomes one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ddops.spec.chunks import Chunk, Chunks
from ddops.spec.record import Trace
from tests.ddops import records

ONE = records.record(records.cells(records.matrix())[0], records.matrix()).traces[0]
SAID = [{"at": 0.25, "tokens": 1}, {"at": 1, "tokens": 4}]
READ = (Chunk(at=0.25, tokens=1), Chunk(at=1.0, tokens=4))


def test_they_read_as_a_tuple_of_chunks() -> None:
    chunks = Chunks.read(SAID)
    assert (tuple(chunks), chunks[-1], len(chunks)) == (READ, READ[1], 2)
    assert chunks == READ == Chunks.read(READ)
    assert chunks[1:] == READ[1:]
    assert Chunks() == ()
    assert not Chunks()


def test_a_trace_keeps_them_as_columns_and_writes_them_as_before() -> None:
    again = Trace.model_validate_json(ONE.model_dump_json())
    assert again == ONE
    assert isinstance(again.chunks, Chunks)
    assert again.model_dump()["chunks"][0] == {"at": ONE.chunks[0].at, "tokens": 1}


@pytest.mark.parametrize(
    "chunks",
    [
        1,
        {"at": 1.0, "tokens": 1},
        [1],
        [None],
        ["at"],
        [[1.0, 1]],
        [{"at": 1.0}],
        [{"at": 1.0, "tokens": 1, "more": 1}],
        [{"at": "1.0", "tokens": 1}],
        [{"at": 1.0, "tokens": 1.5}],
        [{"at": 1.0, "tokens": 1 << 64}],
        [{"at": None, "tokens": 1}],
        [*SAID, []],
    ],
)
def test_anything_else_is_no_chunks(chunks: object) -> None:
    with pytest.raises(ValidationError, match="chunk"):
        Trace.model_validate({**ONE.model_dump(), "chunks": chunks})

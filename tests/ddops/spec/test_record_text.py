"""A record is one JSON document, and is read request by request."""

from __future__ import annotations

import io
import json

import pytest

from ddops.spec import record_text
from ddops.spec.record import Record
from tests.ddops import records

OF = records.matrix()
RECORDS = [records.record(records.cells(OF)[0], OF), records.failed(records.cells(OF)[0], OF)]
TEXT = b"".join(record_text.lines(RECORDS[0]))


@pytest.mark.parametrize("record", RECORDS, ids=["six requests", "none"])
def test_what_is_written_is_read_and_is_plain_json(record: Record) -> None:
    text = b"".join(record_text.lines(record))
    assert record_text.read(io.BytesIO(text)) == record == Record.model_validate_json(text)
    assert text.count(b"\n") == len(record.traces) + 2


def test_a_record_on_one_line_is_read_as_before() -> None:
    text = RECORDS[0].model_dump_json().encode()
    assert record_text.read(io.BytesIO(text)) == RECORDS[0]


@pytest.mark.parametrize("text", [TEXT, RECORDS[0].model_dump_json().encode()])
def test_without_chunks_all_else_is_there(text: bytes) -> None:
    read = record_text.read(io.BytesIO(text), chunks=False)
    assert read == record_text.light(RECORDS[0])
    assert all(trace.chunks == () for trace in read.traces)
    assert read.metrics == RECORDS[0].metrics


def test_a_prompt_that_looks_like_chunks_is_not_taken_for_them() -> None:
    trace = RECORDS[0].traces[0].model_copy(update={"prompt": 'x"chunks":[1]', "error": "a]b"})
    text = trace.model_dump_json().encode()
    cut, chunks = record_text.apart(text)
    assert json.loads(cut) == {**trace.model_dump(mode="json"), "chunks": []}
    assert record_text.together(cut, chunks) == text


@pytest.mark.parametrize("text", [b"{}", b'{"chunks":["x"]}', b'{"chunks":[1', b'{"chunks": [1]}'])
def test_what_is_no_list_of_chunks_stays_where_it_is(text: bytes) -> None:
    cut, chunks = record_text.apart(text)
    assert record_text.together(cut, chunks) == text
    assert b"x" not in chunks


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:-1], "cut off"),
        (lambda text: text[: len(text) // 2], "cut off"),
        (lambda text: text + b" ", "follows"),
        (lambda text: text.replace(b",\n", b"\n"), "cut off"),
        (lambda text: text.replace(b'"prompt":', b'"prompts":'), "prompts"),
        (lambda text: text.replace(b'"box":', b'"boxes":'), "boxes"),
    ],
)
def test_what_is_not_in_form_is_no_record(change: object, said: str) -> None:
    assert callable(change)
    with pytest.raises(ValueError, match=said):
        record_text.read(io.BytesIO(change(TEXT)))


def test_a_line_may_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_text, "LONGEST", 3000)
    found = record_text.parts(io.BytesIO(b'{"box":"b","traces":[\n' + b"9" * 4000 + b"\n]}\n"))
    assert found is not None
    with pytest.raises(ValueError, match="longer than"):
        list(found.traces)

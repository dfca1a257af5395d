"""Files enter a bundle without what is private, long ones line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddops.bundle import workers
from ddops.bundle.payload import Payload
from ddops.bundle.redact import Known
from ddops.spec import record_text
from ddops.spec.record import Record
from tests.ddops import records

KNOWN = Known(users=("alice",), secrets=("s3cret-of-the-box",))
OF = records.matrix()
RECORD = records.record(records.cells(OF)[0], OF)


@pytest.fixture
def payload(tmp_path: Path) -> Payload:
    return Payload(tmp_path / "data", KNOWN)


def kept(folder: Path, name: str, text: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text)
    return folder


def test_a_text_is_written_as_it_may_be_read(payload: Payload) -> None:
    assert payload.text("a/b.txt", "said alice to bob") == "said USER to bob"
    assert payload.files["a/b.txt"].read_text() == "said USER to bob"
    assert [one.model_dump() for one in payload.redactions] == [
        {"file": "a/b.txt", "kind": "user", "count": 1}
    ]


def test_a_long_text_is_copied_line_by_line_and_else_as_it_was(
    payload: Payload, tmp_path: Path
) -> None:
    text = "one\r\ntwo alice\n\nno end"
    folder = kept(tmp_path / "run", "log", text.encode() + b"\xff")
    payload.lines("logs/log", folder / "log")
    assert (
        payload.files["logs/log"].read_bytes().decode() == text.replace("alice", "USER") + "\ufffd"
    )


@pytest.mark.parametrize("form", ["a line a request", "one line"])
def test_a_record_keeps_every_chunk(payload: Payload, tmp_path: Path, form: str) -> None:
    error = RECORD.traces[0].model_copy(update={"error": 'no "chunks":[ from alice'})
    record = RECORD.model_copy(update={"traces": (error, *RECORD.traces[1:])})
    text = record.model_dump_json().encode()
    if form == "a line a request":
        text = b"".join(record_text.lines(record))
    payload.records(kept(tmp_path / "run", "r.json", text), ["r.json"])
    with payload.files["records/r.json"].open("rb") as file:
        read = record_text.read(file)
    assert [trace.chunks for trace in read.traces] == [trace.chunks for trace in record.traces]
    assert read.traces[0].error == 'no "chunks":[ from USER'
    assert not payload.untouched("records/r.json")


@pytest.mark.parametrize("where", ["info", "trace"])
def test_no_list_of_that_name_hides_a_secret(payload: Payload, tmp_path: Path, where: str) -> None:
    said = json.loads(RECORD.model_dump_json())
    if where == "info":
        said["engine"]["info"]["chunks"] = ["s3cret-of-the-box"]
    text = b"".join(record_text.lines(Record.model_validate(said)))
    if where == "trace":
        text = text.replace(b'"chunks":[', b'"chunks":["s3cret-of-the-box"],"chunks":[')
    payload.records(kept(tmp_path / "run", "r.json", text), ["r.json"])
    assert b"s3cret" not in payload.files["records/r.json"].read_bytes()


def test_workers_write_what_one_would(
    payload: Payload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = records.written(tmp_path)
    names = sorted(path.name for path in folder.glob("*.c*.json"))
    payload.records(folder, names)
    monkeypatch.setattr(workers, "_WORTH", 1)
    other = Payload(tmp_path / "other", KNOWN)
    other.records(folder, names)
    assert other.redactions == payload.redactions
    for name, path in payload.files.items():
        assert other.files[name].read_bytes() == path.read_bytes()

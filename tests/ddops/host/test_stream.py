"""Pieces from one folder to another by real processes: faults are told, the rest arrives."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from ddops.host.local import Local
from ddops.host.stream import End, Store, send
from ddops.spec.environment import Piece

HERE = End(Local(), sys.executable)


def piece(path: Path) -> Piece:
    content = path.read_bytes()
    digest, size = hashlib.sha256(content).hexdigest(), len(content)
    return Piece(source=str(path), sha256=digest, size=size, offset=0, length=size)


def written(folder: Path, count: int) -> list[Piece]:
    for number in range(count):
        (folder / str(number)).write_bytes(bytes([number]) * (1000 + number))
    return [piece(folder / str(number)) for number in range(count)]


def test_every_piece_arrives_and_is_told(tmp_path: Path) -> None:
    wanted, told = written(tmp_path, 20), list[int]()
    stage = tmp_path / "stage"
    shards = [wanted[:7], wanted[7:]]
    for codec in ("plain", "zstd"):
        assert send(HERE, HERE, shards, Store(str(stage / codec), codec), told.append) == []
        assert {path.name for path in (stage / codec).iterdir()} == {one.sha256 for one in wanted}
    assert sorted(told) == sorted(2 * [one.length for one in wanted])


def test_files_that_changed_meanwhile_are_named_and_the_others_arrive(tmp_path: Path) -> None:
    wanted = written(tmp_path, 5)
    (tmp_path / "1").write_bytes(b"longer" * 1000)
    (tmp_path / "2").unlink()
    (tmp_path / "3").write_bytes(b"x" * wanted[3].size)  # the same size: only its digest tells
    store = Store(str(tmp_path / "stage"), "zstd")
    (fault,) = send(HERE, HERE, [wanted], store, lambda length: None)
    assert "/2 has changed since it was looked at: [Errno 2] No such file" in fault
    there = {path.name for path in (tmp_path / "stage").iterdir()}
    assert there == {wanted[0].sha256, wanted[4].sha256}


def test_a_disk_that_takes_no_file_is_told_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "stage").write_text("in the way", "utf-8")
    store = Store(str(tmp_path / "stage"), "plain")
    faults = send(HERE, HERE, [written(tmp_path, 1)], store, lambda length: None)
    assert "File exists" in faults[0]

"""A second look at a large file is cheap, and still sees that it changed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ddops.facts.weights import look
from ddops.host import manifest
from ddops.host.local import Local
from ddops.spec.command import Result, Run
from ddops.spec.manifest import beside
from ddops.spec.observed import Artefact

WEIGHTS = b"weights"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


@dataclass
class Watched(Local):
    hashed: list[str] = field(default_factory=list)

    def run(self, command: Run) -> Result:
        if "sha256sum" in command.line:
            self.hashed += command.argv[4:]
        return super().run(command)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file"
    path.write_bytes(WEIGHTS)
    return path


def one(path: Path, host: Local | None = None, *, read_all: bool = False) -> Artefact:
    (seen,) = look(host or Local(), [str(path)], read_all=read_all)
    return seen


def test_an_unchanged_file_is_not_read_again(file: Path) -> None:
    manifest.record(file, "test", SHA256)
    host = Watched()
    seen = one(file, host)
    assert (seen.sha256, seen.recorded, seen.size) == (SHA256, SHA256, len(WEIGHTS))
    assert seen.mtime_ns == file.stat().st_mtime_ns
    assert host.hashed == []


def test_it_is_read_when_everything_is_to_be_read(file: Path) -> None:
    manifest.record(file, "test", "0" * 64)
    assert one(file).sha256 == "0" * 64
    assert one(file, read_all=True).sha256 == SHA256


@pytest.mark.parametrize("content", [b"weightz", b"weight"])
def test_a_changed_file_is_read_again(file: Path, content: bytes) -> None:
    manifest.record(file, "test", SHA256)
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))
    seen = one(file)
    assert (seen.sha256, seen.recorded) == (hashlib.sha256(content).hexdigest(), SHA256)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "a\tb\n"])
def test_a_damaged_manifest_counts_as_none(file: Path, text: str) -> None:
    Path(beside(str(file))).write_text(text, "utf-8")
    seen = one(file)
    assert (seen.recorded, seen.sha256) == (None, SHA256)


def test_a_part_counts_by_what_it_takes_on_the_disk(tmp_path: Path) -> None:
    part = tmp_path / "w.part"
    with part.open("wb") as sparse:
        sparse.truncate(10_000_000)
        sparse.write(b"x" * 8192)
    seen = one(tmp_path / "w")
    assert seen.part
    assert 0 < seen.size < 1_000_000
    assert seen.path == str(tmp_path / "w")


def test_a_folder_is_its_size_and_nothing_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    seen = one(tmp_path)
    assert (seen.path, seen.size, seen.sha256) == (str(tmp_path), 3, None)
    assert look(Local(), [str(tmp_path / "none")]) == ()


def test_a_users_short_paths_are_made_long(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    monkeypatch.setenv("HOME", str(file.parent))
    assert [seen.path for seen in look(Local(), [file.name, f"~/{file.name}"])] == [str(file)] * 2

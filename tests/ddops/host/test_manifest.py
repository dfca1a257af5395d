"""A second look at a large file is cheap, and still sees that it changed."""

import hashlib
import os
from pathlib import Path

import pytest

from ddops.host import manifest


def test_an_unchanged_file_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "w"
    file.write_bytes(b"weights")
    manifest.record(file, "test")
    monkeypatch.setattr(manifest, "digest", lambda path: pytest.fail("it was read"))
    seen = manifest.look(file)
    assert seen is not None
    assert seen["sha256"] == seen["recorded"] == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize("same_size", [True, False])
def test_a_changed_file_is_read_again(tmp_path: Path, same_size: bool) -> None:  # noqa: FBT001
    file = tmp_path / "w"
    file.write_bytes(b"weights")
    manifest.record(file, "test")
    file.write_bytes(b"weightz" if same_size else b"weight")
    os.utime(file, ns=(1, 1))
    seen = manifest.look(file)
    assert seen is not None
    assert seen["sha256"] != seen["recorded"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_a_damaged_manifest_counts_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "w"
    file.write_bytes(b"weights")
    manifest.beside(file).write_text(text, "utf-8")
    seen = manifest.look(file)
    assert seen is not None
    assert seen["recorded"] is None
    assert seen["sha256"] == hashlib.sha256(b"weights").hexdigest()


def test_a_folder_is_its_size_and_nothing_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    seen = manifest.look(tmp_path)
    assert seen == {"path": str(tmp_path), "size": 3, "sha256": None, "recorded": None}
    assert manifest.look(tmp_path / "none") is None

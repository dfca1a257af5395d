"""An archive becomes a folder whole or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ddops.bundle import archive
from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.bundle_verify import verify
from ddops.flows.extract import extract
from tests.ddops import records


def test_what_is_extracted_is_the_bundle(bundle: Path, tmp_path: Path) -> None:
    made = extract(records.archive_of(bundle), tmp_path / "new" / "place")
    assert made.folder == tmp_path / "new" / "place" / bundle.name
    assert verify(made.folder).findings == ()
    assert list(made.folder.parent.iterdir()) == [made.folder]


def test_extracting_again_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    assert extract(records.archive_of(bundle), tmp_path).changed
    assert not extract(records.archive_of(bundle), tmp_path).changed


def test_what_lies_there_is_not_overwritten(bundle: Path, copy: Path) -> None:
    (copy / "README.md").write_text("# mine\n")
    with pytest.raises(UsageError, match="is there already") as told:
        extract(records.archive_of(bundle), copy.parent)
    assert "--out" in (told.value.hint or "")
    assert (copy / "README.md").read_text() == "# mine\n"
    assert list(copy.parent.iterdir()) == [copy]


def test_an_archive_with_a_wrong_hash_leaves_nothing(bundle: Path, tmp_path: Path) -> None:
    files = {p.relative_to(bundle).as_posix(): p.read_bytes() for p in bundle.rglob("*.*")}
    files["README.md"] += b"more\n"
    packed = tmp_path / "b.tar.zst"
    with packed.open("wb") as target:
        archive.pack(files, bundle.name, target)
    with pytest.raises(BundleError, match="damaged") as told:
        extract(packed, tmp_path / "out")
    assert "README.md: was changed" in (told.value.detail or "")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_needs_no_extracting(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder already"):
        extract(bundle, tmp_path)


def test_the_command_prints_the_folder(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = shutil.copy(records.archive_of(bundle), tmp_path)
    line = ["bundle", "extract", str(packed), "--out", str(tmp_path)]
    assert main(line) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / bundle.name)
    assert main([*line, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"folder": str(tmp_path / bundle.name), "changed": False}
    assert "nothing to change" in said.err

"""A bag accounts for every byte: what was changed, added, renamed or lost has a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bagit
import pytest

from ddops.bundle.bag import MANIFEST, MOST_READ, TAG_MANIFEST, bagged, check

PAYLOAD = {"bundle.json": b"{}\n", "records/a.json": b"one", "records/b.json": b"two"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return laid(tmp_path / "bag", bagged(PAYLOAD, b"# claims\n", {"Bagging-Date": "2026-11-29"}))


def laid(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def found(folder: Path) -> list[str]:
    return [finding.file for finding in check(folder)]


def test_a_fresh_bag_has_no_fault(folder: Path) -> None:
    assert found(folder) == []


def test_the_reference_library_finds_it_valid(folder: Path) -> None:
    bag = bagit.Bag(str(folder))
    bag.validate()
    assert bag.info["Payload-Oxum"] == "9.3"


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (lambda bag: flip(bag / "data/records/a.json"), ["data/records/a.json"]),
        (lambda bag: (bag / "data/records/a.json").unlink(), ["data/records/a.json"]),
        (lambda bag: (bag / "data/extra").write_text("x"), ["data/extra"]),
        (lambda bag: (bag / "extra").write_text("x"), ["extra"]),
        (lambda bag: (bag / "README.md").unlink(), ["README.md"]),
        (lambda bag: flip(bag / "bagit.txt"), ["bagit.txt"]),
        (lambda bag: (bag / MANIFEST).unlink(), [MANIFEST]),
        (lambda bag: (bag / TAG_MANIFEST).unlink(), [TAG_MANIFEST]),
        (lambda bag: (bag / "data/empty").mkdir(), ["data/empty"]),
        (lambda bag: (bag / "data/link").symlink_to("bundle.json"), ["data/link"]),
        (
            lambda bag: (bag / "data/records/a.json").rename(bag / "data/records/c.json"),
            ["data/records/a.json", "data/records/c.json"],
        ),
    ],
)
def test_a_fault_has_the_name_of_its_file(
    folder: Path, fault: Callable[[Path], object], named: list[str]
) -> None:
    fault(folder)
    assert set(named) <= set(found(folder))


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.upper(),
        lambda text: text.replace("  ", " *"),
        lambda text: text.replace("README", "./README"),
        lambda text: text.replace("README", "../README"),
        lambda text: text[:-1],
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(reversed(text.splitlines())) + "\n",
        lambda text: text + text.splitlines()[0] + "\n",
    ],
)
def test_a_manifest_in_another_form_is_a_fault(folder: Path, edit: Callable[[str], str]) -> None:
    manifest = folder / TAG_MANIFEST
    manifest.write_bytes(edit(manifest.read_text()).encode())
    assert TAG_MANIFEST in found(folder)


def test_a_name_that_cannot_be_printed_is_told_in_ascii(folder: Path) -> None:
    (folder / "data" / "evil\x1b[2J\n").write_text("x")
    said = [str(finding) for finding in check(folder)]
    assert any("evil\\x1b[2J\\n" in line for line in said)
    assert not any("\x1b" in line for line in said)


def test_a_folder_of_too_many_files_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddops.bundle.bag.MOST_FILES", 4)
    assert [str(finding) for finding in check(folder)] == ["bag: holds far more than 4 files"]


def test_a_long_file_is_only_hashed_or_refused(folder: Path) -> None:
    (folder / "data/report").mkdir()
    for name in ("data/report/report.html", "data/bundle.json"):
        with (folder / name).open("wb") as file:
            file.truncate(MOST_READ + 1)
    assert [str(finding) for finding in check(folder)] == ["data/bundle.json: is longer than 6 MiB"]

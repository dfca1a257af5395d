"""`ddops report` writes its two files beside the records, and says which run it means."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import SpecError, UsageError
from ddops.flows.report import report
from tests.ddops import records


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def test_both_files_lie_in_the_run_and_link_to_its_records(results: Path) -> None:
    home = records.written(results)
    written = report(home)
    assert written.html == home / "report" / "report.html"
    text = written.markdown.read_text()
    assert (written.markdown.parent / "../ar.c1.r1.json").resolve() == home / "ar.c1.r1.json"
    assert "](../ar.c1.r1.json)" in text
    assert "](../ddtree-b16.c4.r1.failure.json)" in text


def test_without_a_name_the_last_run_is_meant(results: Path) -> None:
    older = records.written(results, repeats=1)
    newer = records.written(results, repeats=2)
    assert report().html.parent.parent == newer.relative_to(results.parent)
    for path in older.glob("*.json"):
        os.utime(path, (2e9, 2e9))
    assert report().html.parent.parent == older.relative_to(results.parent)


def test_a_report_of_a_report_changes_nothing(results: Path) -> None:
    home = records.written(results)
    first = report(home).html.read_bytes()
    assert report(home).html.read_bytes() == first


def test_without_any_run_the_next_command_is_told(results: Path) -> None:
    with pytest.raises(UsageError) as told:
        report()
    assert "ddops bench" in (told.value.hint or "")


def test_a_folder_that_is_no_run_is_refused(results: Path) -> None:
    results.mkdir()
    with pytest.raises(UsageError, match=r"no run\.json"):
        report(results)


def test_a_record_with_a_wrong_key_is_named(results: Path) -> None:
    path = records.written(results) / "ar.c1.r1.json"
    path.write_text(path.read_text().replace('"window_s"', '"windows"'))
    with pytest.raises(SpecError, match=r"ar\.c1\.r1\.json: window"):
        report(path.parent)


def test_the_command_prints_the_page_on_stdout_and_the_claims_beside(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = records.written(results)
    assert main(["report", str(home)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{home}/report/report.html\n"
    assert "1.73x of ar" in said.err
    assert main(["report", str(home), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cells"] == {"ok": 6, "failed": 1, "invalid": 1}
    assert told["claims"][0]["records"] == ["ddtree-b8.c1.r1", "ar.c1.r1"]

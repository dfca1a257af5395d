"""`ddops crosscheck`: the other client's file beside a cell, in the run's folder and its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import UsageError
from ddops.flows.crosscheck import Wanted, crosscheck
from ddops.flows.report import report
from tests.ddops import records
from tests.ddops.bench.test_foreign import CLIENTS

CELL = "ddtree-b4.c4.r1"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return records.written(tmp_path / "results")


def test_it_is_kept_once_and_the_report_shows_both(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["crosscheck", str(CLIENTS / "vllm.json"), "--tool-version", "0.33.0", "--cell", CELL]
    assert main(argv) == 0
    said = capsys.readouterr()
    assert "vllm 0.33.0" in said.out
    assert "its ITL is between chunks" in " ".join(said.out.split())
    assert "not the same load: 16 requests, here 6" in said.err
    (kept,) = (run / "foreign").glob("*.json")
    before = kept.read_bytes()
    assert main(argv) == 0
    assert "nothing to change" in capsys.readouterr().err
    assert kept.read_bytes() == before
    written = report(run)
    for text in (written.markdown.read_text("utf-8"), written.html.read_text("utf-8")):
        assert "Measured with another client too" in text
        assert "vllm 0.33.0" in text
        assert "not the same load: 16 requests, here 6" in text.replace("Not the", "not the")


def test_json_has_both_figures_and_the_verdict(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crosscheck", str(CLIENTS / "aiperf.json"), "--cell", CELL, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["cell"], said["result"]["tool_version"]) == (CELL, "0.13.0")
    (speed,) = (line for line in said["lines"] if line["metric"] == "tok/s")
    assert speed["theirs"] == pytest.approx(said["result"]["output_tok_s"])
    assert speed["difference"] == pytest.approx(speed["theirs"] / speed["ours"] - 1)


def test_the_cell_is_found_by_its_load_where_only_one_has_it(run: Path) -> None:
    with pytest.raises(UsageError, match="cells at C=4") as told:
        crosscheck(Wanted(CLIENTS / "vllm.json"))
    assert CELL in str(told.value.hint)
    for path in run.glob("*.c4.r1.json"):
        if not path.name.startswith("ddtree-b4"):
            path.unlink()
    assert crosscheck(Wanted(CLIENTS / "vllm.json")).found.cell == CELL


def test_without_a_good_cell_at_its_load_it_is_refused(run: Path, tmp_path: Path) -> None:
    result = json.loads((CLIENTS / "vllm.json").read_bytes())
    other = tmp_path / "c9.json"
    other.write_text(json.dumps({**result, "max_concurrency": 9}), "utf-8")
    with pytest.raises(UsageError, match="was measured at C=9") as told:
        crosscheck(Wanted(other))
    assert "ar.c1.r1" in str(told.value.hint)
    with pytest.raises(UsageError, match="has no good cell `nothing`"):
        crosscheck(Wanted(CLIENTS / "vllm.json", cell="nothing"))
    assert not (run / "foreign").exists()


def test_a_file_that_is_not_there_is_named(run: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.json cannot be read: No such file"):
        crosscheck(Wanted(Path("nowhere.json")))

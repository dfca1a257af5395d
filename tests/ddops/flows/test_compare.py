"""`ddops compare` of real run folders and bundles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.compare import compare
from tests.checkout import ROOT
from tests.ddops import records
from tests.ddops.flows.bench_machine import QUICK, BenchMachine

ARCHIVED = [
    ROOT / "repro" / f"{name}.tar.zst"
    for name in ("local-smollm2/local-35efde8c", "h200-smollm2/h200-1b84d694")
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return records.written(tmp_path / "results", repeats=3)


def test_a_run_against_itself_settles_nothing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(run), str(run), "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["differences"] == []
    assert {line["verdict"] for line in found["lines"]} == {"not settled"}
    assert {line["effect"]["ratio"] for line in found["lines"]} == {1.0}
    assert {cell["cell"] for cell in found["refused"]} == {"ddtree-b8.c4", "ddtree-b16.c4"}
    assert "ddtree-b16.c4 is not compared: repeat 1 of A failed: illegal-access" in said.err


def test_no_ratio_stands_without_its_interval(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(bundle), str(records.archive_of(bundle))]) == 0
    rows = [row for row in capsys.readouterr().out.splitlines() if " tok/s " in row]
    assert len(rows) == 6
    assert all(re.search(r" - +- +- +1 repeat +not known", row) for row in rows)


def test_a_run_and_its_bundle_hold_the_same_numbers(bundle: Path, tmp_path: Path) -> None:
    same = records.written(tmp_path / "results")
    assert {line.a == line.b for line in compare(same, bundle).lines} == {True}


def test_runs_of_other_loads_are_refused_with_every_reason() -> None:
    with pytest.raises(UsageError, match="cannot be compared") as told:
        compare(*ARCHIVED)
    assert (told.value.detail or "").splitlines() == [
        "another load: `requests` 12 and 32",
        "another load: `warmup` 2 and 8",
        "another load: `max_tokens` 64 and 192",
    ]


def test_a_record_that_does_not_follow_from_its_traces_is_refused(run: Path) -> None:
    path = run / "ar.c1.r2.json"
    told = json.loads(path.read_text())
    told["metrics"]["output_tok_s"] *= 2
    path.write_text(json.dumps(told))
    reasons = {one.cell: one.reason for one in compare(run, run).refused}
    assert reasons["ar.c1"].startswith("repeat 2 of A is by another definition, or was changed")


def test_where_no_cell_is_left_it_is_an_error(run: Path) -> None:
    for path in run.glob("*.r?.json"):
        record = json.loads(path.read_text())
        record["gates"] = [{"name": "alone", "green": False, "detail": "somebody else"}]
        path.write_text(json.dumps(record))
    with pytest.raises(UsageError) as told:
        compare(run, run)
    assert "ar.c1: repeat 1 of A invalid: alone" in (told.value.detail or "")


def test_what_is_neither_run_nor_bundle_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a run nor a bundle"):
        compare(run, tmp_path)
    with pytest.raises(UsageError, match="there is no run and no bundle"):
        compare(run, tmp_path / "none")


def test_two_real_runs_differ_by_what_was_planted(tmp_path: Path) -> None:
    """The mock engine takes twice as long a step, and drafts as well as before."""
    box = BenchMachine(tmp_path)
    try:
        tree = {"name": "ddtree-b8", "mode": "ddtree", "budget": 8}
        box.matrix(variants=[tree], concurrency=[1], repeats=3)
        runs = []
        for out, gap in (("before", 0.05), ("after", 0.1)):
            box.plans(ddtree_b8={**QUICK, "gap": gap})
            done = box.bench("--out", out)
            assert done.returncode == 0, done.stderr
            runs += [path.parent for path in (tmp_path / out).glob("*/run.json")]
    finally:
        box.close()
    lines = {(line.cell, line.metric): line for line in compare(*runs).lines}
    step, accept = lines["ddtree-b8.c1", "TPOT s"], lines["ddtree-b8.c1", "accept"]
    assert step.effect is not None
    assert accept.effect is not None
    assert step.effect.ratio == pytest.approx(2, rel=0.15)
    assert (step.over, step.verdict) == ("3 repeats", "worse")
    assert (accept.effect.ratio, accept.verdict) == (1.0, "not settled")
    assert lines["ddtree-b8.c1", "tok/s"].verdict == "worse"


def test_a_transcript_has_nothing_that_could_be_paired(run: Path) -> None:
    for path in (ROOT / "repro" / "k26-ddtree", ROOT / "repro" / "k26-ddtree" / "records.yaml"):
        with pytest.raises(UsageError, match="is a transcript") as told:
            compare(run, path)
        assert "ddops claims" in (told.value.hint or "")


def test_a_damaged_bundle_is_refused(copy: Path, run: Path) -> None:
    (copy / "data" / "matrix.yaml").write_text("name: other\n")
    with pytest.raises(BundleError, match="is damaged") as told:
        compare(run, copy)
    assert "data/matrix.yaml" in (told.value.detail or "")

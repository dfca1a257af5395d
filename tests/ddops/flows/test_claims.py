"""`ddops claims` against real run folders and bundles: verdicts, exit codes, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import SpecError, UsageError
from ddops.flows.claims import claims
from tests.ddops import records

TRUE = """
  - says: a tree of 8 is faster than autoregressive decoding
    kind: more
    of: [ddtree-b8.c1.r1]
    base: [ar.c1.r1]
"""
FALSE = """
  - says: it is ten times as fast
    kind: ratio
    of: [ddtree-b8.c1.r1]
    base: [ar.c1.r1]
    stated: 10
    tolerance: 0.5
"""


def file(folder: Path, where: Path, text: str) -> Path:
    path = folder / "claims.yaml"
    path.write_text(f"records: {where}\nclaims:{text}", "utf-8")
    return path


def test_true_claims_end_with_0_and_show_their_arithmetic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = records.written(tmp_path / "results")
    assert main(["claims", str(file(tmp_path, run.relative_to(tmp_path), TRUE))]) == 0
    said = capsys.readouterr()
    assert "true" in said.out
    assert "ddtree-b8.c1.r1, ar.c1.r1" in said.out
    assert said.err == ""


def test_a_false_claim_ends_with_12(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = records.written(tmp_path / "results")
    asked = file(tmp_path, run, TRUE + FALSE)
    assert main(["claims", str(asked), "--json"]) == 12
    said = capsys.readouterr()
    true, false = json.loads(said.out)
    assert (true["holds"], false["holds"]) == (True, False)
    [step] = false["arithmetic"]
    assert step["records"] == ["ddtree-b8.c1.r1", "ar.c1.r1"]
    assert step["found"] == pytest.approx(1.73, abs=0.01)
    assert "1 of 2 claims" in said.err


def test_a_bundle_is_as_good_as_a_run(bundle: Path, tmp_path: Path) -> None:
    for where in (bundle, records.archive_of(bundle)):
        assert [one.holds for one in claims(file(tmp_path, where, TRUE + FALSE))] == [True, False]


def test_a_record_whose_numbers_were_changed_bears_nothing_out(tmp_path: Path) -> None:
    run = records.written(tmp_path / "results")
    path = run / "ddtree-b8.c1.r1.json"
    told = json.loads(path.read_text())
    told["metrics"]["output_tok_s"] *= 10
    path.write_text(json.dumps(told))
    [judged] = claims(file(tmp_path, run, TRUE))
    assert not judged.holds
    assert "output_tok_s" in judged.steps[0].text


def test_a_record_that_is_not_there_is_a_mistake_in_the_file(tmp_path: Path) -> None:
    run = records.written(tmp_path / "results")
    asked = file(tmp_path, run, TRUE.replace("ddtree-b8.c1.r1", "ddtree-b8.c1"))
    with pytest.raises(SpecError, match=r"has no record `ddtree-b8\.c1`") as told:
        claims(asked)
    assert told.value.hint == "did you mean `ddtree-b8.c1.r1`?"


def test_a_wrong_key_is_named_with_its_line(tmp_path: Path) -> None:
    asked = file(tmp_path, tmp_path, TRUE.replace("kind:", "sort:"))
    with pytest.raises(SpecError, match=r"claims\.yaml:4:5: unknown key `sort`"):
        claims(asked)


def test_without_a_file_or_records_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        claims(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="there is no run and no bundle"):
        claims(file(tmp_path, tmp_path / "none", TRUE))

"""A speed beside a red gate, or without any gate, is nowhere printed as a speed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ddops.analysis.compare import rows, verdict
from ddops.cli.app import main
from ddops.flows.search import tried_of
from ddops.spec.record import Record
from tests.ddops import records

CELL = "ddtree-b8.c4.r1"


@pytest.fixture(params=["red", "none"])
def spoilt(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Record]:
    """A run in which one cell has a red gate, or no gate at all, and a speed all the same."""
    home = records.written(tmp_path / "results", troubled=True)
    path = home / f"{CELL}.failure.json"
    record = Record.model_validate_json(path.read_bytes())
    if request.param == "none":
        record = record.model_copy(update={"gates": ()})
        path.write_text(record.model_dump_json() + "\n")
    assert record.metrics is not None
    return home, record


def printed(record: Record, text: str) -> list[str]:
    """The spellings of its speed that stand in `text`."""
    assert record.metrics is not None
    speed = record.metrics.output_tok_s
    spellings = (
        f"{speed:.1f}",
        f"{speed:.2f}",
        f"{speed:.3g} tok/s",
        f">{speed:.3g}<",
        f"[{speed:.3g}]",
    )
    return [one for one in spellings if one in text]


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    main([str(each) for each in arguments])
    heard = capsys.readouterr()
    return heard.out + heard.err


def test_neither_the_table_nor_a_search_has_its_speed(spoilt: tuple[Path, Record]) -> None:
    _, record = spoilt
    (row,) = rows([record])
    assert verdict(record).startswith("invalid: ")
    assert (row.output_tok_s, row.speedup, row.tpot_p50_s) == (None, None, None)
    assert tried_of(record).tok_s is None


def test_neither_do_the_report_the_comparison_the_estimate_and_the_bundle(
    spoilt: tuple[Path, Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, record = spoilt
    texts = {"report": said(capsys, "report", home)}
    texts["page"] = (home / "report" / "report.html").read_text()
    texts["markdown"] = (home / "report" / "report.md").read_text()
    texts["compare"] = said(capsys, "compare", home, home)
    texts["compare --json"] = said(capsys, "compare", home, home, "--json")
    texts["estimate"] = said(capsys, "estimate", "fit", home, "--json")
    made = said(capsys, "bundle", "create", home, "--out", tmp_path / "out")
    bundle = next((tmp_path / "out").glob("*.tar.zst"))
    texts["show"] = said(capsys, "bundle", "show", bundle)
    texts["show --json"] = said(capsys, "bundle", "show", bundle, "--json")
    texts["diff"] = said(capsys, "bundle", "diff", bundle, bundle)
    found = {where: printed(record, text) for where, text in texts.items()}
    assert {where: spellings for where, spellings in found.items() if spellings} == {}
    assert made
    for where in ("report", "page", "markdown", "compare", "show"):
        assert "invalid: " in texts[where], where


def test_a_claim_that_rests_on_it_is_not_borne_out(
    spoilt: tuple[Path, Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, record = spoilt
    assert record.metrics is not None
    stated = round(record.metrics.output_tok_s, 1)
    claim = {"says": "fast", "kind": "value", "of": [CELL], "stated": stated, "tolerance": 0.1}
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"records": str(home), "claims": [claim]}))
    assert main(["claims", str(path)]) == 12
    assert f"{CELL} invalid: " in said(capsys, "claims", path)

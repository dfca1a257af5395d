"""`ddops report` writes the findings of a run: every section from its data, every number linked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.report import report
from tests.checkout import ROOT
from tests.ddops import records

BUNDLE = ROOT / "repro" / "local-smollm2-epyc" / "local-35efde8c.tar.zst"
SECTIONS = ["Algorithm", "Results", "Fixes", "Other boxes", "Bottleneck", "Roadmap"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return records.written(tmp_path_factory.mktemp("results"), troubled=True)


@pytest.fixture(scope="module")
def text(home: Path) -> str:
    return report(home).findings.read_text("utf-8")


def section(text: str, name: str) -> str:
    return text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_it_has_the_sections_that_the_field_record_asked_for(text: str) -> None:
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS


def test_every_link_leads_to_a_record(home: Path, text: str) -> None:
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert len(links) >= 8
    assert [link for link in links if not (home / "report" / link).resolve().is_file()] == []


def test_what_failed_or_is_invalid_stands_under_fixes_and_nowhere_as_a_speed(text: str) -> None:
    fixes = section(text, "Fixes")
    assert "ddtree-b16.c4.r1 failed: illegal-access: CUDA error: an illegal" in fixes
    assert "ddtree-b8.c4.r1 invalid: garbage: accept collapsed" in fixes
    assert "ddtree-b8 | C=4" not in section(text, "Algorithm")


def test_a_step_is_told_beside_that_of_ar(text: str) -> None:
    rows = [line for line in section(text, "Algorithm").splitlines() if line.startswith("| ddtree")]
    assert len(rows) == 4
    assert all(re.search(r"\| \d\.\d\d \|$", row) for row in rows)


def test_the_bottleneck_is_what_the_step_is_made_of_where_nothing_was_sampled(text: str) -> None:
    assert re.search(r"ms a step; by the fit to all cells a \w+ \d+%", section(text, "Bottleneck"))


def test_the_roadmap_is_numbered_and_ends_with_what_makes_it_surer(text: str) -> None:
    lines = section(text, "Roadmap").strip().splitlines()
    assert [line.partition(".")[0] for line in lines] == [str(n + 1) for n in range(len(lines))]
    assert "find out why ddtree-b8 at C=4 invalid: garbage" in "\n".join(lines)


def test_a_run_of_another_box_stands_beside_with_why_its_speeds_are_no_equals(home: Path) -> None:
    boxes = section(report(home, (BUNDLE,)).findings.read_text("utf-8"), "Other boxes")
    assert f"### local: {BUNDLE}" in boxes
    assert "speeds are other quantities there: another load: `max_tokens` 48 and 64" in boxes
    assert re.search(
        r"\| ddtree-b8 \| C=1 \| \S+ \| 1\.73x \| \S+ \| 113 \| 1\.74x \| 3\.01 \|", boxes
    )
    assert "None was named" in section(report(home).findings.read_text("utf-8"), "Other boxes")


def test_the_same_records_give_the_same_findings(home: Path, text: str) -> None:
    assert report(home).findings.read_text("utf-8") == text


def test_what_is_named_beside_has_to_be_a_run(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run and no bundle"):
        report(home, (tmp_path / "none",))
    broken = tmp_path / "broken.tar.zst"
    broken.write_bytes(BUNDLE.read_bytes()[:2000])
    with pytest.raises(BundleError):
        report(home, (broken,))
    assert main(["report", str(home), "--beside", str(BUNDLE), "--quiet"]) == 0

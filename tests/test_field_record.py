"""The field record as data: every figure it has is there, and what it claims is checked."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ddops.analysis.stated import of_transcript
from ddops.bench.expand import configured
from ddops.cli.app import main
from ddops.errors import CheckError
from ddops.flows.advise import ask
from ddops.flows.plan import render
from ddops.spec.deployment import Deployment
from ddops.spec.grid import Grid
from ddops.spec.load import read
from ddops.spec.matrix import Variant
from ddops.spec.transcript import Power, Span, Transcript
from tests.checkout import ROOT
from tests.ddops.gpu_boxes import box_of, patched, seen, site

HOME = ROOT / "repro" / "k26-ddtree"
RECORD = read(HOME / "records.yaml", Transcript)
MATRIX = read(HOME / "matrix.yaml", Grid).matrix()
TOLD = of_transcript(RECORD)

SPEEDS = {
    "ar.c1": 133,
    "ar.c64": 3870,
    "ddtree-b8.c1": 285,
    "ddtree-b8.c64": 3795,
    "ddtree-b8-nvls.c1": 303,
    "ddtree-b8-nvls.c64": 4006,
    "ddtree-b8-nvls.c128": 4723,
    "ddtree-b16-eager.c1.000": 111,
    "ddtree-b16-eager.c1.001": 80,
}
FAILED = {
    "ddtree-b12": "failed: illegal-access",
    "ddtree-b16": "failed: illegal-access",
    "ddtree-b32": "failed: garbage",
}
FALSE = {
    "2.15x": ["303 / 133 = 2.278"],
    "nearly 3.5x": ["4723 / 303 = 15.59"],
    "faster than autoregressive decoding, at C=1": ["285 > 133", "3795 < 3870"],
    "about 5 %": ["303 / 285 = 1.063", "4006 / 3795 = 1.056"],
    "111 tok/s": ["111", "80"],
}
FIGURES = {
    "pcie-gpus": 8,
    "pcie-bandwidth": 1.8,
    "pcie-b32": 50,
    "pcie-block8": 138.7,
    "b300-gpus": 8,
    "b300-nvlink": 900,
    "b300-memory": 275,
    "b300-bandwidth": 8,
    "weights-size": 590,
    "drafter-block": 8,
    "drafter-layers": 6,
    "download-connections": 16,
    "download-rate": 575,
    "download-gain": 3,
    "download-time": 17,
    "graphs-budget": 8,
    "verify-rows": 1200,
    "graphs-gain": 3.8,
    "b300-step": (14.4, 14.5),
    "b300-step-accept": (4.36, 4.4),
    "pcie-moe-efficiency": (67, 73),
    "pcie-moe-m9": 8.85,
    "pcie-moe-m32": 23.8,
}
SYMPTOMS = {
    "graphs-budget": "illegal memory access",
    "verify-rows": "CUBLAS",
    "vision-warm-up": "crash at warm-up",
    "python-headers": "compile error",
    "graph-width": "8 vs 33",
}


def test_it_says_that_it_was_copied() -> None:
    assert RECORD.kind == "transcribed"
    assert "no raw requests" in RECORD.source


def test_every_speed_of_the_record_is_there_and_no_other() -> None:
    speeds = {cell.id: cell.output_tok_s for cell in RECORD.cells if cell.output_tok_s is not None}
    assert speeds == SPEEDS


def test_every_failure_of_the_record_is_there_and_gives_no_figure() -> None:
    assert {cell.id: TOLD[cell.id].trouble for cell in RECORD.cells if cell.failure} == FAILED


def test_accept_and_coding_are_there() -> None:
    of_row = {cell.id: cell for cell in RECORD.cells}
    accept = {name: cell.accept for name, cell in of_row.items() if cell.accept is not None}
    assert accept == {
        "ddtree-b8": 4.48,
        "ddtree-b8-nvls": 4.36,
        "ddtree-b16-eager": Span(low=5.3, high=6.4),
        "ddtree-b32": 1.0,
    }
    coding = {n: (c.coding.passed, c.coding.of) for n, c in of_row.items() if c.coding}
    assert coding == {"ddtree-b8": (5, 5), "ddtree-b16-eager": (5, 5)}


def test_every_figure_beside_the_results_is_there_and_no_other() -> None:
    told = {
        one.name: (one.value.low, one.value.high) if isinstance(one.value, Span) else one.value
        for one in RECORD.figures
    }
    assert told == FIGURES
    assert RECORD.power == Power(drawn_w=Span(low=360, high=460), limit_w=1100, utilisation=1)


def test_every_constraint_is_there_with_its_symptom() -> None:
    symptoms = {one.name: one.symptom for one in RECORD.constraints}
    assert symptoms.keys() == SYMPTOMS.keys()
    assert all(SYMPTOMS[name] in symptom for name, symptom in symptoms.items())


def test_its_configurations_are_those_of_the_matrix() -> None:
    assert {cell.variant.name for cell in RECORD.cells} == {v.name for v in MATRIX.variants}
    assert all(cell.variant in MATRIX.variants for cell in RECORD.cells)
    asked = {*MATRIX.concurrency, None}
    assert {cell.concurrency for cell in RECORD.cells} <= asked


def test_the_check_finds_the_five_false_claims_and_only_those(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["claims", str(HOME / "claims.yaml"), "--json"]) == 12
    said = capsys.readouterr()
    assert "5 of 10 claims are not borne out" in said.err
    false: list[dict[str, Any]] = [one for one in json.loads(said.out) if not one["holds"]]
    assert len(false) == len(FALSE)
    for (words, arithmetic), one in zip(FALSE.items(), false, strict=True):
        assert words in one["says"]
        steps = [step["text"].partition(",")[0] for step in one["arithmetic"]]
        assert steps == arithmetic


def test_the_table_for_people_says_what_the_records_say() -> None:
    table = re.findall(r"^\| `([\w-]+)` \|(.*)\|$", (HOME / "README.md").read_text(), re.MULTILINE)
    assert [name for name, _ in table] == [variant.name for variant in MATRIX.variants]
    for name, row in table:
        own = [cell for cell in RECORD.cells if cell.variant.name == name]
        for concurrency, text in zip(MATRIX.concurrency, row.split("|"), strict=False):
            numbers = re.findall(r"\d+", re.sub(r"\(\d+\)", "", text))  # without write-ups
            speeds = [cell.output_tok_s for cell in own if cell.concurrency == concurrency]
            assert [float(number) for number in numbers] == speeds


def test_the_findings_are_what_the_records_give_today(tmp_path: Path) -> None:
    fresh = Path(shutil.copytree(HOME, tmp_path / HOME.name))
    (fresh / "findings.md").unlink()
    assert main(["report", str(fresh)]) == 0
    assert (fresh / "findings.md").read_text("utf-8") == (HOME / "findings.md").read_text("utf-8")


SERVABLE = [variant.name for variant in MATRIX.variants if variant.name not in FAILED]


@pytest.mark.parametrize("name", SERVABLE)
def test_the_unit_of_a_configuration_is_what_the_rules_make_of_it(name: str) -> None:
    """`GOLDEN=write pytest …` writes them again: read the difference before it is committed."""
    unit = rendered(name)
    file = HOME / "units" / f"{name}.service"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(unit, "utf-8")
    assert unit.splitlines() == file.read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", FAILED)
def test_the_rules_refuse_what_failed(name: str) -> None:
    with pytest.raises(CheckError, match="sglang-graph-wall"):
        rendered(name)


def rendered(name: str) -> str:
    wish = deployment(next(variant for variant in MATRIX.variants if variant.name == name))
    box = box_of("b300").model_copy(update={"deployment": wish})
    there = site(box, version="0.5.13", options=patched("sglang-0.5.13"))
    made = render(there, wish, ask(there, wish, seen("b300")))
    made.advised.check()
    return made.unit


def deployment(variant: Variant) -> Deployment:
    """At budget 16 only half the streams keep below the rows that the MLA product stands."""
    made = configured(box_of("b300").deployment, variant)
    streams = 64 if variant.budget == 16 else 128
    limits = made.limits.model_copy(update={"max_running_requests": streams})
    return made.model_copy(update={"limits": limits})

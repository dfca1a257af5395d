"""Samples go with their record into its bundle, and the record must follow from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddops.analysis.telemetry import Expected, telemetry
from ddops.bundle import recheck
from ddops.flows.bundle import create
from ddops.flows.bundle_verify import verify
from ddops.spec.record import Record
from tests.ddops import records, sampled

CELL = "ddtree-b8.c1.r1"
SAMPLES = f"telemetry/{CELL}.20261130010203.jsonl"
NAME = f"data/records/{CELL}.json"


def written(folder: Path) -> Path:
    """A run with one cell beside which the box was sampled: CPU packages, no GPU."""
    home = records.written(folder, troubled=False)
    path = home / f"{CELL}.json"
    record = Record.model_validate_json(path.read_bytes())
    assert record.metrics is not None
    tokens = record.metrics.output_tok_s * record.metrics.duration_s
    text = sampled.text(gpus=0, packages=True)
    told = telemetry(text, sampled.WINDOW, Expected(tokens=tokens, gpus=0, used=0))
    told = told.model_copy(update={"samples": SAMPLES})
    path.write_text(record.model_copy(update={"telemetry": told}).model_dump_json() + "\n")
    (home / "telemetry").mkdir()
    (home / SAMPLES).write_text(text)
    return home


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return create(written(tmp_path / "results")).folder


def faults(folder: Path) -> list[str]:
    """What contradicts itself, whatever the hashes say."""
    return [str(one) for one in recheck.recheck(folder, lambda record: record.metrics).findings]


def test_samples_lie_in_the_bundle_and_it_verifies(bundle: Path) -> None:
    assert (bundle / "data" / SAMPLES).read_text() == sampled.text(gpus=0, packages=True)
    assert verify(bundle).findings == ()
    assert faults(bundle) == []


def test_an_energy_that_does_not_follow_from_the_samples_is_found(bundle: Path) -> None:
    path = bundle / NAME
    text = path.read_text()
    assert '"energy_j":500.0,"j_per_token"' in text
    path.write_text(text.replace('"energy_j":500.0,"j_per_token"', '"energy_j":50.0,"j_per_token"'))
    assert faults(bundle) == [f"{NAME}: telemetry.energy_j is 50.0, its samples give 500.0"]


def test_samples_that_were_changed_are_found_by_what_they_come_to(bundle: Path) -> None:
    path = bundle / "data" / SAMPLES
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not 1003 < json.loads(line)["t"] < 1006]
    path.write_text("\n".join(kept) + "\n")
    found = faults(bundle)
    assert f"{NAME}: telemetry.energy_j is 500.0, its samples give None" in found


def test_samples_that_are_gone_are_missed(bundle: Path) -> None:
    (bundle / "data" / SAMPLES).unlink()
    assert faults(bundle) == [f"data/{SAMPLES}: is missing"]


@pytest.mark.parametrize("name", ["../run.json", "telemetry/../run.json", "/etc/passwd"])
def test_a_record_names_no_file_elsewhere(bundle: Path, name: str) -> None:
    path = bundle / NAME
    path.write_text(path.read_text().replace(SAMPLES, name))
    assert faults(bundle) == [f"{NAME}: names samples that no bundle has a place for"]


def test_samples_that_nobody_can_read_are_a_fault_of_theirs(bundle: Path) -> None:
    path = bundle / "data" / SAMPLES
    path.write_text(path.read_text().replace('"t": 1005.0', '"t": "noon"'))
    (fault,) = faults(bundle)
    assert fault.startswith(f"data/{SAMPLES}: cannot be read: a line that no sampler writes")

"""The crate names every file, and every cell as an action with its end, good or bad."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ddops.bundle import crate
from tests.checkout import ROOT
from tests.ddops import records

Graph = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def graph(bundle: Path) -> Graph:
    said = json.loads((bundle / "data" / crate.NAME).read_text())
    assert said["@context"] == "https://w3id.org/ro/crate/1.2/context"
    return {entity["@id"]: entity for entity in said["@graph"]}


def ids(value: object) -> list[str]:
    assert isinstance(value, list)
    return [each["@id"] for each in value]


def test_every_other_file_is_a_part(bundle: Path, graph: Graph) -> None:
    data = bundle / "data"
    there = {p.relative_to(data).as_posix() for p in data.rglob("*") if p.is_file()}
    assert {*ids(graph["./"]["hasPart"])} == there - {crate.NAME}
    size = (data / "run.json").stat().st_size
    assert graph["run.json"]["contentSize"] == str(size)


def test_a_cell_is_an_action_with_what_it_used_and_made(graph: Graph) -> None:
    action = graph["#ar.c1.r1"]
    assert action["@type"] == "CreateAction"
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert action["startTime"] == "2026-11-29T18:01:01Z"
    assert action["description"] == "ddops bench local --matrix --yes"
    assert ids(action["instrument"]) == ["#ddops-0.1.0", "#ddtree-0.1.0"]
    assert {"matrix.yaml", "units/ar.service", "weights.json"} <= {*ids(action["object"])}
    assert ids(action["result"]) == ["records/ar.c1.r1.json"]
    assert "error" not in action


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ddtree-b16.c4.r1.failure", "illegal-access: CUDA error"),
        ("ddtree-b8.c4.r1.failure", "garbage: accept collapsed"),
    ],
)
def test_a_failed_or_invalid_cell_is_a_failed_action(graph: Graph, name: str, error: str) -> None:
    action = graph[f"#{name}"]
    assert action["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert str(action["error"]).startswith(error)


def test_whatever_is_named_is_there(graph: Graph) -> None:
    def named(value: object) -> list[str]:
        if isinstance(value, dict):
            return [value["@id"]] if {*value} == {"@id"} else named([*value.values()])
        return [one for each in value for one in named(each)] if isinstance(value, list) else []

    outside = {name for name in named([*graph.values()]) if name not in graph}
    assert outside == {"https://w3id.org/ro/crate/1.2"}


def test_no_date_is_of_today(graph: Graph) -> None:
    dates = [value for each in graph.values() for key, value in each.items() if "date" in key]
    assert dates == ["2026-11-29T18:04:01Z"]


def test_a_replay_names_what_it_repeats(tmp_path: Path) -> None:
    of = records.matrix()
    run = records.run(of)
    based = {"name": "local-demo-1a2b3c4d", "sha256": "c" * 64, "drift": ()}
    run = type(run).model_validate({**run.model_dump(), "based_on": based})
    told = records.told(run)
    said = json.loads(crate.crate(told, run, {}, {}))
    entities = {entity["@id"]: entity for entity in said["@graph"]}
    assert entities["./"]["isBasedOn"] == {"@id": f"urn:sha256:{'c' * 64}"}
    assert entities[f"urn:sha256:{'c' * 64}"]["name"] == "local-demo-1a2b3c4d"


@pytest.mark.slow
def test_the_reference_validator_finds_nothing_required_missing(
    bundle: Path, tmp_path: Path
) -> None:
    """In a venv of its own: it wants an older `rich` than ddops does."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "roc-validator"], check=True)
    context = str(files("rocrate") / "data" / "ro-crate.jsonld")
    program = ROOT / "tests/ddops/bundle/validate_crate.py"
    line = (python, program, context, bundle / "data")
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ro-crate-1.2: valid", "process-run-crate-0.5: valid"]

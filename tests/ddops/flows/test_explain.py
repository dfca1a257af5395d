"""`ddops explain`: every flag with its reason, and exit code 5 when a rule forbids the wish."""

from __future__ import annotations

import json

from tests.ddops.machine import Machine


def test_every_flag_of_the_unit_is_explained(machine: Machine) -> None:
    done = machine.ddops("explain", "stand", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["options_from"].startswith("ddtree ")
    flags = [one["flag"] for one in said["arguments"]]
    assert flags[:2] == ["--model", "--served-model-name"]
    assert all(one["why"] and one["source"] for one in said["arguments"] + said["environment"])


def test_a_forbidden_wish_is_explained_too(machine: Machine) -> None:
    machine.inventory(gpus=2)
    done = machine.ddops("explain", "stand")
    assert done.returncode == 5
    assert "gpus-as-wished" in done.stdout
    refused = machine.ddops("plan", "stand")
    assert refused.returncode == 5
    assert "the wish breaks rule `" in refused.stderr


def test_an_override_goes_on_and_is_recorded_with_the_deployment(machine: Machine) -> None:
    machine.inventory(parallel="ep")
    overrides = ("--override", "ep-needs-experts", "--override", "gpus-as-wished")
    planned = machine.ddops("plan", "stand", *overrides)
    assert "overridden: rule `ep-needs-experts`: expert parallelism shares out" in planned.stdout
    done = machine.ddops("deploy", "stand", "--yes", *overrides)
    assert done.returncode == 0, done.stderr
    kept = json.loads((machine.box_home / "generations.json").read_text("utf-8"))["kept"]
    assert kept[0]["deployment"]["overrides"] == ["ep-needs-experts", "gpus-as-wished"]
    explained = machine.ddops("explain", "stand", *overrides)
    assert explained.returncode == 0
    assert "overridden" in explained.stdout


def test_a_flag_the_engine_lacks_is_refused_before_anything_is_done(machine: Machine) -> None:
    machine.inventory(flags={"--bugdet": 3})
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 5
    assert "has no option --bugdet" in done.stderr
    assert "did you mean `--budget`?" in done.stderr

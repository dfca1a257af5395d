"""`ddops inspect` on a real machine."""

import json

from ddops.spec.observed import Surveyed
from tests.ddops.machine import Machine


def test_shows_what_there_is_and_changes_nothing(machine: Machine) -> None:
    before = sorted(machine.folder.rglob("*"))
    shown = machine.ddops("inspect", "stand")
    assert shown.returncode == 0
    assert "absent, run by background" in shown.stdout
    assert f"{machine.port}, free" in shown.stdout
    assert sorted(machine.folder.rglob("*")) == before


def test_prints_everything_it_saw_as_json(machine: Machine) -> None:
    shown = machine.ddops("inspect", "stand", "--json")
    seen = Surveyed.model_validate(json.loads(shown.stdout))
    assert seen.model.artefacts[0].path == str(machine.model)
    assert seen.python.engine
    assert shown.stderr == ""


def test_sees_the_running_service(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    seen = Surveyed.model_validate(json.loads(machine.ddops("inspect", "stand", "--json").stdout))
    assert seen.service.state == "running"
    assert seen.health.ready
    assert seen.port.holder is not None
    assert seen.port.holder.pid == seen.service.pid

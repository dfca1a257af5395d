"""Several boxes by one command: each for itself, and all of them told."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import yaml

from tests.ddops.machine import Done, Machine, free_port


@pytest.fixture
def pair(machine: Machine) -> Iterator[Machine]:
    """`stand` and `other`, both on this machine and in group `both`."""
    path = machine.folder / "inventories" / "stand.yaml"
    about = yaml.safe_load(path.read_text("utf-8"))
    about["groups"] = ["both"]
    path.write_text(yaml.safe_dump(about), "utf-8")
    about["deployment"]["serving"]["port"] = free_port()
    path.with_name("other.yaml").write_text(yaml.safe_dump(about), "utf-8")
    yield machine
    machine.ddops("stop", "other")


def outcomes(done: Done) -> dict[str, Any]:
    return {one["box"]: one for one in json.loads(done.stdout)}


def spoil(machine: Machine, **how: Any) -> None:
    """Give the engine of `other` a fault."""
    folder = machine.home / "boxes" / "other"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "behave.json").write_text(json.dumps(how), "utf-8")


def test_a_group_is_deployed_at_once_and_a_second_time_nothing_changes(pair: Machine) -> None:
    done = pair.ddops("deploy", "both", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert {box: one["exit_code"] for box, one in outcomes(done).items()} == {
        "other": 0,
        "stand": 0,
    }
    assert "stand | " in done.stderr
    assert "other | " in done.stderr
    again = pair.ddops("deploy", "stand", "other", "--yes")
    assert again.returncode == 0
    assert again.stdout.count("nothing to change") == 2
    ready = pair.ddops("status", "both")
    assert ready.returncode == 0
    assert ready.stdout.count("running, ready, stand-in") == 2


def test_one_that_fails_hides_nothing_of_the_others(pair: Machine) -> None:
    spoil(pair, exit=4)
    done = pair.ddops("deploy", "stand", "other", "--yes", "--json")
    assert done.returncode == 8
    told = outcomes(done)
    assert (told["stand"]["exit_code"], told["stand"]["error"]) == (0, None)
    assert told["stand"]["result"]["answer"]["text"]
    assert (told["other"]["exit_code"], told["other"]["result"]) == (8, None)
    assert told["other"]["error"].startswith("the service of box `other` died")
    assert "hint:" in told["other"]["error"]
    assert "other | error: the service of box `other` died" in done.stderr
    assert pair.status()["ready"]


def test_the_table_has_a_line_a_box_and_the_worst_exit_code(pair: Machine) -> None:
    (pair.folder / "inventories" / "broken.yaml").write_text("deployment: {}\n", "utf-8")
    done = pair.ddops("plan", "stand", "broken")
    assert done.returncode == 3
    head, stand, broken = (line.split() for line in done.stdout.splitlines())
    assert head == ["box", "exit", "result"]
    assert stand[:2] == ["stand", "0"]
    assert broken[:2] == ["broken", "3"]
    assert "key `engine` is missing" in done.stdout


def test_a_check_of_several_names_what_fails(pair: Machine) -> None:
    done = pair.ddops("check", "both", DDOPS_PYTHON="/nowhere/python")
    assert done.returncode == 5
    assert done.stdout.count("fail: Python") == 2


def test_without_yes_all_are_planned_before_one_question(pair: Machine) -> None:
    done = pair.ddops("deploy", "both")
    assert done.returncode == 2
    assert "Do this to other, stand?" in done.stderr
    assert done.stderr.count(" changes, ") == 2
    assert pair.ddops("status", "stand").returncode == 8


def test_a_box_that_cannot_be_planned_is_left_out_of_a_dry_run(pair: Machine) -> None:
    path = pair.folder / "inventories" / "other.yaml"
    path.write_text(path.read_text("utf-8").replace("model.gguf", "missing.gguf"), "utf-8")
    told = outcomes(pair.ddops("deploy", "both", "--dry-run", "--json"))
    assert (told["other"]["exit_code"], told["stand"]["exit_code"]) == (6, 0)
    assert told["stand"]["result"]["commands"]


def test_one_name_is_as_ever(pair: Machine) -> None:
    done = pair.ddops("plan", "stand", "--json")
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""


def test_a_group_of_one_is_still_a_list(pair: Machine) -> None:
    path = pair.folder / "inventories" / "other.yaml"
    path.write_text(path.read_text("utf-8").replace("- both", "- alone"), "utf-8")
    done = pair.ddops("plan", "alone", "--json")
    assert list(outcomes(done)) == ["other"]


def test_a_name_that_nobody_has_lists_boxes_and_groups(pair: Machine) -> None:
    done = pair.ddops("status", "stand", "bothh")
    assert done.returncode == 2
    assert "there is no box `bothh`" in done.stderr
    assert "known groups: both" in done.stderr
    assert "did you mean `both`?" in done.stderr


def test_a_box_whose_process_is_killed_is_no_success(pair: Machine) -> None:
    spoil(pair, never_ready=True)
    running = pair.process("deploy", "both", "--yes", "--json")
    state, until = pair.home / "boxes" / "other" / "state.json", time.monotonic() + 20
    while not state.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    (child,) = [one for one in psutil.Process(running.pid).children() if "other" in one.cmdline()]
    child.kill()
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 137
    told = {one["box"]: one for one in json.loads(said)}
    assert told["other"]["error"] == "ended by signal 9"
    assert told["stand"]["exit_code"] == 0


def test_ctrl_c_reaches_every_box_once(pair: Machine) -> None:
    spoil(pair, never_ready=True)
    (pair.box_home / "behave.json").write_text('{"never_ready": true}', "utf-8")
    running = pair.process("deploy", "both", "--yes")
    states = [pair.home / "boxes" / name / "state.json" for name in ("stand", "other")]
    until = time.monotonic() + 20
    while not all(path.exists() for path in states):
        assert time.monotonic() < until
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 130
    for box in ("stand", "other"):
        assert f"{box} | interrupted" in said
    assert "hint: to continue, `ddops deploy both --yes`" in said


def test_a_group_is_looked_at_and_restarted_and_stopped_at_once(pair: Machine) -> None:
    assert pair.ddops("deploy", "both", "--yes").returncode == 0
    seen = pair.ddops("inspect", "both")
    assert (seen.returncode, seen.stdout.count("running, ready")) == (0, 2)
    assert pair.ddops("diff", "both").stdout.count("no drift") == 2
    planned = pair.ddops("restart", "both", "--dry-run")
    assert (planned.returncode, planned.stdout.count("supervisor stop")) == (0, 2)
    before = {box: one["result"]["service"]["pid"] for box, one in looked(pair).items()}
    again = pair.ddops("restart", "both")
    assert (again.returncode, again.stdout.count("ready, process")) == (0, 2)
    after = {box: one["result"]["service"]["pid"] for box, one in looked(pair).items()}
    assert all(before[box] != after[box] for box in ("stand", "other"))
    assert pair.ddops("stop", "both").stdout.count("stopped") == 2
    assert pair.ddops("stop", "both").stdout.count("nothing to stop") == 2


def looked(pair: Machine) -> dict[str, Any]:
    return outcomes(pair.ddops("inspect", "both", "--json"))


def test_one_fingerprint_for_several_boxes_is_refused(pair: Machine) -> None:
    done = pair.ddops("inspect", "both", "--pin", "SHA256:abc")
    assert done.returncode == 2
    assert "for each of them" in done.stderr

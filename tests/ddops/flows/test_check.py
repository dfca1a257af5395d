"""`ddops check` on a real machine."""

import json
import socket

import pytest

from ddops.errors import CheckError
from ddops.facts import clock
from ddops.flows.plan import check_driver
from ddops.host.local import Local
from ddops.spec.load import load_box
from ddops.spec.observed import Clock
from tests.ddops.machine import Machine
from tests.ddops.seen import SEEN, observed


def test_this_machine_is_judged_and_nothing_is_changed(machine: Machine) -> None:
    before = sorted(machine.folder.rglob("*"))
    shown = machine.ddops("check", "stand")
    assert shown.returncode == 0, shown.stdout
    assert f"{machine.port} is free" in shown.stdout
    assert sorted(machine.folder.rglob("*")) == before


def test_a_busy_port_fails_with_its_holder_and_exit_code_5(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", machine.port)):
        done = machine.ddops("check", "stand", "--json")
    assert done.returncode == 5
    verdicts = {one["subject"]: one for one in json.loads(done.stdout)}
    assert verdicts["port"]["state"] == "fail"
    assert "in use by process" in verdicts["port"]["said"]
    assert verdicts["C library"]["state"] == "ok"


def test_our_own_service_on_the_port_is_fine(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    done = machine.ddops("check", "stand")
    assert done.returncode == 0
    assert "held by our own service" in done.stdout


def test_a_missing_interpreter_is_a_verdict_and_no_end(machine: Machine) -> None:
    done = machine.ddops("check", "stand", DDOPS_PYTHON="/nowhere/python")
    assert done.returncode == 5
    assert "there is no /nowhere/python" in done.stdout
    assert "GB free" in done.stdout


def test_an_interpreter_that_fails_is_told_in_its_own_words(machine: Machine) -> None:
    machine.python.write_text("#!/bin/sh\necho it is broken >&2; exit 3\n", "utf-8")
    done = machine.ddops("check", "stand", "--json")
    assert done.returncode == 5
    said = {one["subject"]: one["said"] for one in json.loads(done.stdout)}
    assert said["Python"] == f"{machine.python} does not run: it is broken"


def test_a_module_whose_own_needs_are_missing_fails_before_a_deploy_does(machine: Machine) -> None:
    module = machine.folder / "found" / "minijinja" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text("import what_it_needs\n", "utf-8")
    script = machine.python.read_text("utf-8")
    machine.python.write_text(script.replace('PYTHONPATH="', f'PYTHONPATH="{module.parents[1]}:'))
    done = machine.ddops("check", "stand", "--json")
    assert done.returncode == 5
    (said,) = [one for one in json.loads(done.stdout) if one["subject"] == "Python"]
    why = "`import minijinja`: ModuleNotFoundError: No module named 'what_it_needs'"
    assert said["said"].endswith(f"cannot run ddtree: {why}")


def test_a_plan_is_refused_for_what_a_preflight_fails() -> None:
    doing = {**SEEN["hardware"], "on_bus": 8, "complaint": "it has failed"}
    with pytest.raises(CheckError, match="no driver answers: it has failed") as caught:
        check_driver(load_box("local").deployment, observed(hardware=doing))
    assert "install NVIDIA's driver" in str(caught.value.hint)


def test_clocks_are_compared_by_the_middle_of_the_question() -> None:
    assert clock.parse("1700000010.5\nyes\n", asked=1700000000.0, answered=1700000001.0) == Clock(
        ahead_s=10.0, kept=True
    )
    said = Local().run(clock.COMMAND).stdout
    now = float(said.split()[0])
    assert abs(clock.parse(said, asked=now, answered=now).ahead_s) < 1e-3


def test_a_wish_that_a_rule_forbids_does_not_fit(machine: Machine) -> None:
    machine.inventory(gpus=2)
    done = machine.ddops("check", "stand", "--json")
    assert done.returncode == 5
    (said,) = [one for one in json.loads(done.stdout) if one["subject"] == "rules"]
    assert said["state"] == "fail"
    assert "the wish breaks rule `" in said["said"]
    assert "--override" in said["fix"]

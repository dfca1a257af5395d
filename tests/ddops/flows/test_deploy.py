"""`ddops deploy`, with real processes, a real port and a stand-in for the engine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.ddops.machine import Machine, free_port


def deployed(machine: Machine) -> Machine:
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 0, done.stderr
    return machine


def test_deploys_and_shows_an_answer_of_the_service(machine: Machine) -> None:
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"http://127.0.0.1:{machine.port}" in done.stdout
    assert "Paris is the capital of France." in done.stdout
    assert "`ddops bench stand`" in done.stdout
    assert httpx.get(f"http://127.0.0.1:{machine.port}/ready").status_code == 200


def test_a_second_deploy_changes_nothing_and_is_quick(machine: Machine) -> None:
    deployed(machine)
    before, began = machine.state(), time.monotonic()
    again = machine.ddops("deploy", "stand", "--yes")
    assert again.returncode == 0
    assert "nothing to change" in again.stdout
    assert time.monotonic() - began < 5.0
    assert machine.state() == before


def test_a_dry_run_prints_the_plan_and_touches_nothing(machine: Machine) -> None:
    tried = machine.ddops("deploy", "stand", "--dry-run")
    assert tried.returncode == 0
    assert "write boxes/stand/unit.json" in tried.stdout
    assert sorted(path.name for path in machine.box_home.iterdir()) == []


def test_the_plan_is_exactly_what_is_applied(machine: Machine) -> None:
    planned = json.loads(machine.ddops("plan", "stand", "--json").stdout)
    done = json.loads(machine.ddops("deploy", "stand", "--yes", "--json").stdout)
    assert done["changed"] == len(planned["commands"]) == 3


def test_refuses_to_change_a_box_when_nobody_can_answer(machine: Machine) -> None:
    refused = machine.ddops("deploy", "stand")
    assert refused.returncode == 2
    assert "hint: run the same command with `--yes`" in refused.stderr
    assert not (machine.box_home / "unit.json").exists()


def test_a_changed_inventory_restarts_the_service_with_it(machine: Machine) -> None:
    deployed(machine)
    first = machine.status()["service"]["pid"]
    machine.inventory(decoding={"mode": "ar"})
    assert machine.status()["drift"] == [
        "decoding.mode: deployed ddtree, inventory ar",
        "decoding.drafter.source: deployed bundled, inventory none",
    ]
    deployed(machine)
    now = machine.status()
    assert now["mode"] == "ar"
    assert now["drift"] == []
    assert now["service"]["pid"] != first


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(2, "refused its arguments"), (3, "cannot be loaded"), (4, "out of memory"), (1, "crashed")],
)
def test_a_service_that_dies_at_start_gets_a_verdict(
    machine: Machine, code: int, meaning: str
) -> None:
    machine.behave(exit=code)
    began = time.monotonic()
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert meaning in done.stderr
    assert f"exit code {code}" in done.stderr
    assert "the stand-in gives up on purpose" in done.stderr
    assert "hint: " in done.stderr
    assert time.monotonic() - began < 8.0  # not the ready timeout
    assert machine.status()["service"]["pid"] is None


def test_a_service_that_never_becomes_ready_is_told_apart(machine: Machine) -> None:
    machine.inventory(ready_timeout_s=1.0)
    machine.behave(never_ready=True)
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert re.search(r"lives, but was not ready after \d+ s: ", done.stderr)
    assert "raise `ready_timeout_s`" in done.stderr


def test_one_that_listens_and_then_dies_is_told_apart(machine: Machine) -> None:
    machine.behave(never_ready=True, dies_s=1.0)
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert "answered, then died after" in done.stderr


def test_one_that_dies_at_its_first_question_is_told_apart(machine: Machine) -> None:
    machine.behave(dies_asked=True)
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert "was ready, then died at its first question: the engine crashed" in done.stderr
    assert "the stand-in gives up on purpose" in done.stderr


def test_an_empty_answer_fails_the_smoke_test(machine: Machine) -> None:
    machine.behave(say=" ")
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert "its answer is empty" in done.stderr


def test_a_model_that_is_still_thinking_passes_it(machine: Machine) -> None:
    machine.behave(say="", think="The user asks for a capital.")
    deployed(machine)


def test_a_failed_deploy_puts_the_one_before_back(machine: Machine) -> None:
    deployed(machine)
    unit = (machine.box_home / "unit.json").read_text("utf-8")
    machine.inventory(decoding={"mode": "ar"})
    machine.behave(exit=3, only_mode="ar")
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert "what was deployed before runs again" in done.stderr
    assert (machine.box_home / "unit.json").read_text("utf-8") == unit
    now = machine.status()
    assert (now["ready"], now["mode"]) == (True, "ddtree")


def test_its_secrets_come_back_with_it(machine: Machine) -> None:
    key = machine.folder / "key"
    key.write_text("s3cret-of-the-box\n", "utf-8")
    machine.inventory(serving={"port": machine.port, "api_key_file": str(key)})
    deployed(machine)
    machine.inventory(decoding={"mode": "ar"})
    machine.behave(exit=3, only_mode="ar")
    assert machine.ddops("deploy", "stand", "--yes").returncode == 8
    assert "s3cret-of-the-box" in (machine.box_home / "env").read_text("utf-8")


def test_a_port_held_by_another_process_names_it(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", machine.port)):
        done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 5
    assert f"port {machine.port} is in use by process {os.getpid()}" in done.stderr
    assert f"`kill {os.getpid()}`" in done.stderr


def test_a_python_without_the_engine_is_told_how_to_get_it(machine: Machine) -> None:
    bare = machine.folder / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n', "utf-8")
    bare.chmod(0o755)
    done = machine.ddops("deploy", "stand", "--yes", DDOPS_PYTHON=str(bare))
    assert done.returncode == 5
    assert "pip install 'ddops[runtime]'" in done.stderr


def test_missing_weights_of_the_box_are_named(machine: Machine) -> None:
    machine.model.unlink()
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 6
    assert f"there is no {machine.model} on the box" in done.stderr


def test_weights_with_another_digest_are_refused(machine: Machine) -> None:
    pinned = {"source": f"file:{machine.model}", "sha256": "0" * 64}
    machine.inventory(model={"name": "stand-in", "weights": pinned})
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 6
    assert "has sha256" in done.stderr


def test_two_deploys_at_once_are_one_too_many(machine: Machine) -> None:
    machine.behave(never_ready=True)
    first = machine.process("deploy", "stand", "--yes")
    try:
        wait_for(machine.box_home / "state.json")
        second = machine.ddops("stop", "stand")
        assert second.returncode == 5
        assert f"`ddops deploy` (process {first.pid}" in second.stderr
    finally:
        first.kill()
        first.communicate()
    # The kernel gives back the lock of a killed process.
    assert machine.ddops("stop", "stand").returncode == 0


def test_ctrl_c_in_the_middle_says_how_to_go_on_and_the_next_deploy_does(machine: Machine) -> None:
    machine.behave(never_ready=True)
    running = machine.process("deploy", "stand", "--yes")
    wait_for(machine.box_home / "state.json")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "hint: to continue, `ddops deploy stand --yes`" in said
    machine.behave()
    deployed(machine)
    assert machine.status()["ready"]


def test_the_api_key_reaches_the_engine_and_no_command_line(machine: Machine) -> None:
    key = machine.folder / "key"
    key.write_text("s3cret-of-the-box\n", "utf-8")
    machine.inventory(serving={"port": machine.port, "api_key_file": str(key)})
    done = machine.ddops("deploy", "stand", "--yes", "-v")
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    assert "s3cret" not in (machine.box_home / "unit.json").read_text("utf-8")
    assert (machine.box_home / "env").stat().st_mode & 0o777 == 0o600
    pid = machine.status()["service"]["pid"]
    assert "s3cret" not in " ".join(psutil.Process(pid).cmdline())


def test_a_missing_key_file_is_named(machine: Machine) -> None:
    machine.inventory(serving={"port": free_port(), "api_key_file": "/nowhere/key"})
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 4
    assert "`api_key_file` /nowhere/key is missing or empty" in done.stderr


def wait_for(path: Path, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)

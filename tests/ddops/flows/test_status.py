"""`ddops status`: the service as it is, and where it differs from the inventory."""

import os
import signal
import time

from ddops.flows.status import differences
from ddops.spec.load import load_box
from tests.ddops.machine import Machine


def test_before_the_first_deploy_nothing_is_ready(machine: Machine) -> None:
    shown = machine.ddops("status", "stand")
    assert shown.returncode == 8
    assert "absent" in shown.stdout


def test_a_deployed_service_says_what_it_is(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    shown = machine.ddops("status", "stand")
    assert shown.returncode == 0
    seen = machine.status()
    assert (seen["ready"], seen["model"], seen["mode"], seen["budget"], seen["drift"]) == (
        True,
        "stand-in",
        "ddtree",
        16,
        [],
    )
    assert seen["service"]["uptime_s"] < 30
    assert seen["unit"] == str(machine.box_home / "unit.json")


def test_a_unit_changed_by_hand_is_drift(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    unit = machine.box_home / "unit.json"
    unit.write_text(unit.read_text("utf-8").replace('"16"', '"8"'), "utf-8")
    assert machine.status()["drift"] == ["the unit on the box is not the one of the inventory"]
    assert machine.ddops("deploy", "stand", "--yes").returncode == 0
    assert machine.status()["drift"] == []


def test_a_killed_engine_comes_back_and_is_counted(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    pid = machine.status()["service"]["pid"]
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while (now := machine.status())["service"]["pid"] in (None, pid) or not now["ready"]:
        assert time.monotonic() < until
    assert now["service"]["restarts"] == 1


def test_differences_are_named_by_key() -> None:
    deployed = load_box("local").deployment
    serving = deployed.serving.model_copy(update={"port": 9000})
    wanted = deployed.model_copy(update={"serving": serving, "threads": 2})
    assert differences(deployed, wanted) == [
        "serving.port: deployed 8421, inventory 9000",
        "threads: deployed none, inventory 2",
    ]
    assert differences(None, wanted) == ["what runs has not passed its gate"]

"""`ddops stop` ends the service, once."""

import psutil

from tests.ddops.machine import Machine


def test_stops_what_runs_and_keeps_what_lies_there(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    pid = machine.status()["service"]["pid"]
    stopped = machine.ddops("stop", "stand")
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert not psutil.pid_exists(pid)
    assert machine.status()["service"]["state"] == "stopped"
    assert (machine.box_home / "unit.json").exists()
    assert machine.ddops("stop", "stand").stdout == "nothing to stop\n"


def test_a_dry_run_only_says_so(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    tried = machine.ddops("stop", "stand", "--dry-run")
    assert "ddops.host.supervisor stop" in tried.stdout
    assert machine.status()["ready"]


def test_a_stopped_service_is_started_again_by_deploy(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    machine.ddops("stop", "stand")
    again = machine.ddops("deploy", "stand", "--yes", "--json")
    assert '"changed": 1' in again.stdout
    assert machine.status()["ready"]

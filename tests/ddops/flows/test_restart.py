"""`ddops restart` gives the service a new process, and waits for its gate."""

from tests.ddops.machine import Machine


def test_a_new_process_with_the_same_unit(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    before = machine.status()["service"]
    done = machine.ddops("restart", "stand")
    assert done.returncode == 0, done.stderr
    after = machine.status()["service"]
    assert after["pid"] != before["pid"]
    assert after["unit_sha256"] == before["unit_sha256"]


def test_nothing_deployed_is_nothing_to_restart(machine: Machine) -> None:
    done = machine.ddops("restart", "stand")
    assert done.returncode == 8
    assert "hint: `ddops deploy stand`" in done.stderr


def test_a_service_that_does_not_come_back_gets_a_verdict(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    machine.behave(exit=4)
    done = machine.ddops("restart", "stand")
    assert done.returncode == 8
    assert "out of memory (exit code 4)" in done.stderr

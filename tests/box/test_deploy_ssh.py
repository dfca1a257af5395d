"""`ddops inspect`, `plan` and `deploy` of a box behind SSH, from this machine."""

from __future__ import annotations

import json
import random
import time

import pytest

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import HOME, SECRET, Site


@pytest.fixture
def site(equipped: Box, operator: Operator) -> Site:
    return Site(operator, equipped)


def test_a_bare_box_serves_after_one_command_and_a_second_changes_nothing(site: Site) -> None:
    planned = site.ddops("plan", "--json")
    assert planned.returncode == 0, planned.stderr
    assert "first contact with" in planned.stderr
    commands = json.loads(planned.stdout)["commands"]
    assert site.box.run("ls", HOME).returncode != 0  # a plan changes nothing

    told = site.deployed()
    assert "Paris is the capital of France." in told
    assert site.box.must("systemctl", "is-active", "ddops-b300") == "active\n"
    now = site.status()
    assert (now["ready"], now["mode"], now["drift"]) == (True, "ddtree", [])
    assert len(commands) == 6

    began = time.monotonic()
    again = site.ddops("deploy", "--yes")
    assert "nothing to change" in again.stdout
    assert time.monotonic() - began < 5.0
    assert SECRET not in site.box.must("journalctl", "--no-pager") + again.stderr + told


def test_a_box_is_looked_at_over_ssh(site: Site) -> None:
    seen = json.loads(site.ddops("inspect", "--json").stdout)
    assert seen["system"]["pid1"] == "systemd"
    assert seen["python"]["engine"]
    assert seen["service"] == {**seen["service"], "state": "absent", "kind": "systemd"}
    assert "Debian" in seen["system"]["os"] or "Ubuntu" in seen["system"]["os"]


def test_a_wrong_pin_is_refused_before_anything_is_asked(site: Site) -> None:
    done = site.ddops("inspect", "--pin", "SHA256:other")
    assert done.returncode == 4
    assert "is not the expected machine" in done.stderr


def test_a_box_without_the_interpreter_says_which_key_names_it(site: Site) -> None:
    site.box.must("rm", "/srv/python")
    done = site.ddops("plan")
    assert done.returncode == 4
    assert "there is no /srv/python on box `b300`" in done.stderr
    assert "`python` in the inventory" in done.stderr


def test_a_service_that_dies_at_start_gets_its_verdict_over_ssh(site: Site) -> None:
    site.box.write(f"{HOME}/behave.json", json.dumps({"exit": 4}))
    done = site.ddops("deploy", "--yes")
    assert done.returncode == 8
    assert "out of memory (exit code 4)" in done.stderr
    assert "the stand-in gives up on purpose" in done.stderr


def test_stop_restart_and_logs_work_over_ssh(site: Site) -> None:
    site.deployed()
    assert site.ddops("restart").returncode == 0
    assert site.ddops("stop").stdout == "stopped\n"
    assert site.box.run("systemctl", "is-active", "ddops-b300").stdout == "inactive\n"
    assert "stand-in serves /srv/model.gguf" in site.ddops("logs").stdout


@pytest.mark.parametrize("moment", [0.8, 1.6])
def test_after_kill_9_at_any_moment_the_next_deploy_finishes(site: Site, moment: float) -> None:
    """Neither a lock, nor a half written file, nor a process stays in its way."""
    first = site.start("deploy", "--yes")
    time.sleep(moment * random.uniform(0.8, 1.2))
    first.kill()
    first.communicate()
    until = time.monotonic() + 5
    while (done := site.ddops("deploy", "--yes")).returncode == 5:  # its lock, for a moment
        assert time.monotonic() < until
    assert done.returncode == 0, done.stderr
    assert site.status()["ready"]
    left = set(site.box.must("ls", "-A", HOME).split())
    assert left - {"cache"} == {"env", "generations.json", "history.jsonl", "lock"}


def test_the_lock_on_the_box_names_its_holder_and_is_free_once_the_holder_is_killed(
    site: Site,
) -> None:
    site.box.write(f"{HOME}/behave.json", json.dumps({"never_ready": True}))
    first = site.start("deploy", "--yes")
    try:
        until = time.monotonic() + 20
        while site.box.run("systemctl", "is-active", "ddops-b300").stdout != "activating\n":
            assert time.monotonic() < until
        second = site.ddops("stop")
        assert second.returncode == 5
        assert f"`ddops deploy` (process {first.pid}" in second.stderr
    finally:
        first.kill()
        first.communicate()
    until = time.monotonic() + 5
    while site.ddops("stop").returncode != 0:
        assert time.monotonic() < until
    assert site.box.run("pgrep", "-f", "flock|ddops-pid").stdout == ""

"""`ddops deploy` where systemd is process 1: a real unit, a real journal, a real reboot."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
import yaml

from tests.box.box import Box
from tests.checkout import ROOT
from tests.ddops.machine import STANDIN

HOME = "/var/lib/ddops/boxes/stand"
UNIT = "ddops-stand"
DEPLOYMENT: dict[str, Any] = {
    "engine": "ddtree",
    "model": {"name": "stand-in", "weights": {"source": "file:/srv/model.gguf"}},
    "decoding": {"mode": "ddtree", "budget": 16, "drafter": {"source": "bundled"}},
    "serving": {"api_key_file": "/srv/key"},
    "ready_timeout_s": 20,
}


@pytest.fixture
def site(equipped: Box) -> Box:
    """A box with weights, a key, an inventory, and the stand-in for the engine."""
    python = f'#!/bin/sh\nPYTHONPATH="{STANDIN}" exec "{sys.executable}" "$@"\n'
    equipped.write("/srv/python", python, 0o755)
    equipped.write("/srv/model.gguf", "weights")
    equipped.write("/srv/key", "s3cret-of-the-box\n", 0o600)
    inventory(equipped)
    behave(equipped)
    return equipped


def inventory(box: Box, **changes: Any) -> None:
    text = yaml.safe_dump({"deployment": {**DEPLOYMENT, **changes}})
    box.write("/srv/stand.yaml", text)


def behave(box: Box, **how: Any) -> None:
    box.write(f"{HOME}/behave.json", json.dumps(how))


def ddops(box: Box, *words: str) -> tuple[int, str, str]:
    verb, *rest = words
    env = ("env", "DDOPS_HOME=/var/lib/ddops", "DDOPS_PYTHON=/srv/python", f"PYTHONPATH={ROOT}")
    done = box.run(*env, sys.executable, "-m", "ddops", verb, "/srv/stand.yaml", *rest)
    return done.returncode, done.stdout, done.stderr


def status(box: Box) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ddops(box, "status", "--json")[1])
    return found


def deployed(box: Box) -> None:
    code, _, said = ddops(box, "deploy", "--yes")
    assert code == 0, said


def property_of(box: Box, name: str) -> str:
    return box.must("systemctl", "show", UNIT, f"--property={name}", "--value").strip()


def test_the_service_is_a_hardened_unit_that_comes_back_after_a_reboot(site: Box) -> None:
    deployed(site)
    seen = status(site)
    assert (seen["ready"], seen["service"]["kind"], seen["drift"]) == (True, "systemd", [])
    assert seen["unit"] == f"/etc/systemd/system/{UNIT}.service"
    assert property_of(site, "ActiveState") == "active"
    assert property_of(site, "Type") == "notify"
    pid = property_of(site, "MainPID")
    assert "NoNewPrivs:\t1" in site.must("cat", f"/proc/{pid}/status")
    assert "CapEff:\t0000000000000000" in site.must("cat", f"/proc/{pid}/status")
    assert site.must("systemd-analyze", "verify", seen["unit"]) == ""

    code, told, _ = ddops(site, "deploy", "--yes")
    assert (code, "nothing to change" in told) == (0, True)

    old = site.root
    site.run("systemctl", "reboot")
    until = time.monotonic() + 30
    while old.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    site.wait_for_ssh()
    while not status(site)["ready"]:
        assert time.monotonic() < until
    assert status(site)["drift"] == []


def test_the_key_is_in_the_service_and_nowhere_else(site: Box) -> None:
    deployed(site)
    pid = property_of(site, "MainPID")
    assert "s3cret-of-the-box" in site.must("cat", f"/proc/{pid}/environ")
    elsewhere = (f"/etc/systemd/system/{UNIT}.service", f"{HOME}/generations.json")
    for text in (
        site.must("cat", *elsewhere),
        site.must("cat", f"/proc/{pid}/cmdline"),
        site.must("journalctl", "--no-pager"),
        site.must("systemctl", "show", UNIT),
    ):
        assert "s3cret" not in text


def test_the_journal_is_the_log(site: Box) -> None:
    deployed(site)
    code, told, _ = ddops(site, "logs", "-n", "100")
    assert code == 0
    assert "stand-in serves /srv/model.gguf in mode ddtree" in told


def test_a_killed_engine_is_started_again_by_systemd(site: Box) -> None:
    deployed(site)
    first = property_of(site, "MainPID")
    site.must("kill", "-9", first)
    until = time.monotonic() + 20
    while property_of(site, "MainPID") in ("0", first) or not status(site)["ready"]:
        assert time.monotonic() < until
    assert status(site)["service"]["restarts"] == 1


@pytest.mark.parametrize(("code", "meaning"), [(3, "cannot be loaded"), (1, "crashed")])
def test_a_unit_that_dies_at_start_gets_a_verdict_from_the_journal(
    site: Box, code: int, meaning: str
) -> None:
    behave(site, exit=code)
    ended, _, said = ddops(site, "deploy", "--yes")
    assert ended == 8
    assert meaning in said
    assert f"exit code {code}" in said
    assert "the stand-in gives up on purpose" in said
    assert property_of(site, "MainPID") == "0"


def test_a_failed_deploy_puts_the_unit_before_it_back(site: Box) -> None:
    deployed(site)
    unit = site.must("cat", f"/etc/systemd/system/{UNIT}.service")
    inventory(site, decoding={"mode": "ar"})
    behave(site, exit=3, only_mode="ar")
    code, _, said = ddops(site, "deploy", "--yes")
    assert code == 8
    assert "what was deployed before runs again" in said
    assert site.must("cat", f"/etc/systemd/system/{UNIT}.service") == unit
    assert status(site)["ready"]


def test_it_is_stopped_and_restarted_by_its_own_supervisor(site: Box) -> None:
    deployed(site)
    assert ddops(site, "restart")[0] == 0
    assert ddops(site, "stop")[1] == "stopped\n"
    assert property_of(site, "ActiveState") == "inactive"
    deployed(site)
    assert status(site)["ready"]

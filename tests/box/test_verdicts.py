"""What goes wrong on a box that serves: each its own verdict, and what served goes on serving."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.box.box import Box, shared_paths
from tests.box.conftest import operating
from tests.box.site import SECRET, Site
from tests.box.test_ssh_trouble import add_user, new_key
from tests.checkout import ROOT
from tests.ddops.machine import Done

STATE = "/srv/state"  # a file system of its own, small enough to be filled
HOME = f"{STATE}/boxes/b300"
UNIT = "/etc/systemd/system/ddops-b300.service"


@pytest.fixture(scope="module")
def deployed(
    bootable: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, str]]:
    """One box for all: what each test leaves is what it found, or the test has failed."""
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("the checkout lies in /tmp, which the service does not see")
    home = tmp_path_factory.mktemp("operator")
    with pytest.MonkeyPatch.context() as patch, Box(share=shared_paths()) as box:
        box.must("mkdir", STATE)
        box.must("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", STATE)
        site = Site(operating(home, patch), box)
        site.inventory(state_dir=STATE)
        site.deployed()
        yield site, box.must("cat", UNIT)


@pytest.fixture
def site(deployed: tuple[Site, str]) -> Iterator[Site]:
    """Afterwards the first generation serves: as it was, and ready."""
    here, unit = deployed
    behave(here)
    here.inventory(state_dir=STATE)
    yield here
    assert here.box.must("cat", UNIT) == unit
    behave(here)
    here.inventory(state_dir=STATE)
    now = here.status()
    assert (now["ready"], now["mode"], now["drift"]) == (True, "ddtree", [])


def behave(site: Site, **how: Any) -> None:
    site.box.write(f"{HOME}/behave.json", json.dumps(how))


def changed(site: Site, **more: Any) -> Done:
    """Try to deploy another mode."""
    site.inventory(state_dir=STATE, decoding={"mode": "ar"}, **more)
    return site.ddops("deploy", "--yes")


def test_one_that_dies_at_start_gives_way_to_the_one_before(site: Site) -> None:
    behave(site, exit=3, only_mode="ar")
    done = changed(site)
    assert done.returncode == 8
    assert "the model or the drafter cannot be loaded (exit code 3)" in done.stderr
    assert "what was deployed before runs again: generation 1" in done.stderr


def test_one_that_listens_and_dies_does_too(site: Site) -> None:
    behave(site, never_ready=True, dies_s=1.0, only_mode="ar")
    done = changed(site)
    assert done.returncode == 8
    assert "answered, then died after" in done.stderr
    assert "the stand-in gives up on purpose" in done.stderr


def test_one_that_never_becomes_ready_does_too(site: Site) -> None:
    behave(site, never_ready=True, only_mode="ar")
    done = changed(site, ready_timeout_s=2)
    assert done.returncode == 8
    assert "lives, but was not ready after" in done.stderr
    assert "raise `ready_timeout_s`" in done.stderr


def test_a_unit_that_systemd_refuses_stops_nothing(site: Site) -> None:
    pid = site.status()["service"]["pid"]
    real = site.box.must("sh", "-c", "command -v systemd-analyze").strip()
    refuses = "#!/bin/sh\necho 'Unknown section' >&2\nexit 1\n"
    site.box.write("/usr/local/bin/systemd-analyze", refuses, 0o755)
    done = changed(site)
    site.box.must("rm", "/usr/local/bin/systemd-analyze")
    assert real == "/usr/bin/systemd-analyze"
    assert done.returncode == 7
    assert "Unknown section" in done.stderr
    assert site.status()["service"]["pid"] == pid


def test_a_port_in_use_is_told_with_its_holder(site: Site) -> None:
    serve = ("python3", "-m", "http.server", "-b", "127.0.0.1", "9000")
    site.box.must("systemd-run", "--quiet", "--unit=holder", *serve)
    until = time.monotonic() + 10
    while "9000" not in site.box.must("ss", "-ltn"):
        assert time.monotonic() < until
    done = changed(site, serving={"port": 9000})
    site.box.must("systemctl", "stop", "holder")
    assert done.returncode == 5
    assert "port 9000 is in use by process" in done.stderr
    assert "http.server" in done.stderr


def test_a_full_disk_is_told_before_anything_is_touched(site: Site) -> None:
    site.box.run("sh", "-c", f"cat /dev/zero > {STATE}/filler")
    done = changed(site)
    site.box.must("rm", f"{STATE}/filler")
    assert done.returncode == 7
    assert "No space left on device" in done.stderr
    assert "hint: free some space" in done.stderr


def test_a_driver_too_old_for_torch_is_told_with_both_versions(site: Site) -> None:
    recorded = ROOT / "tests/ddops/facts/recorded/h200"
    smi = (
        f"#!/bin/sh\ncd {recorded} || exit\n"
        "case $* in *query-gpu*) cat gpus.csv ;; topo*) cat topology.txt ;; *) cat report.txt ;;\n"
        "esac\n"
    )
    python = site.box.must("cat", "/srv/python")
    site.box.write("/usr/local/bin/nvidia-smi", smi, 0o755)
    site.box.write("/srv/newer/torch/__init__.py", "")
    site.box.write("/srv/newer/torch/version.py", "cuda: str = '13.0'\n")
    site.box.write("/srv/python", python.replace('PYTHONPATH="', 'PYTHONPATH="/srv/newer:'), 0o755)
    done = changed(site)
    site.box.must("rm", "-r", "/usr/local/bin/nvidia-smi", "/srv/newer")
    site.box.write("/srv/python", python, 0o755)
    assert done.returncode == 5
    assert "driver 550.127.08 runs CUDA up to 12.4, torch" in done.stderr
    assert "is built for 13.0" in done.stderr
    assert "hint: install a driver for CUDA 13" in done.stderr


def test_a_changed_host_key_is_refused(site: Site) -> None:
    known = site.operator.known_hosts
    recorded = known.read_text("utf-8")
    other = f"{new_key(site.operator.home, 'other')}.pub"
    kind, public, *_ = subprocess.check_output(["cat", other], text=True).split()
    known.write_text(f"{site.box.address} {kind} {public}\n", "utf-8")
    done = changed(site)
    known.write_text(recorded, "utf-8")
    assert done.returncode == 4
    assert "shows another key than before" in done.stderr
    assert "--pin SHA256:" in done.stderr


def test_sudo_that_wants_a_password_is_told_with_the_way_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(site.box, "bound", "ALL=(ALL) ALL")
    site.inventory(reach={"user": "bound"})
    forced = {**site.environment, "DDOPS_SUPERVISOR": "systemd"}
    monkeypatch.setattr(Site, "environment", forced)
    done = site.ddops("stop")
    monkeypatch.undo()
    assert done.returncode == 4
    assert "user `bound` of box `b300` may not use sudo without a password" in done.stderr
    assert "/etc/sudoers.d/bound" in done.stderr


def test_a_planted_secret_is_nowhere_but_in_its_own_files(site: Site) -> None:
    seen = [
        site.box.must("ps", "axww", "-o", "args"),
        site.box.must("journalctl", "--no-pager", "-a"),
        site.box.must("cat", UNIT, f"{HOME}/history.jsonl", f"{HOME}/generations.json"),
        site.ddops("history", "--steps").stdout,
        site.ddops("diff").stdout,
        site.ddops("plan", "--json").stdout,
    ]
    assert "deploy" in seen[3]
    assert SECRET not in "".join(seen)
    places = (
        HOME,
        "/root",
        "/etc",
        "/run",
        "/tmp",
    )
    found = site.box.run("grep", "-rlF", SECRET, *places)
    assert found.stdout.split() == [f"{HOME}/env", "/root/key"]
    assert site.box.must("stat", "-c", "%a", f"{HOME}/env") == "600\n"


def test_what_was_changed_by_hand_is_drift(site: Site) -> None:
    assert site.ddops("diff").stdout == "no drift\n"
    unit = site.box.must("cat", UNIT)
    site.box.write(UNIT, unit.replace("--budget 16", "--budget 4"))
    done = site.ddops("diff", "--json")
    site.box.write(UNIT, unit)
    site.box.must("systemctl", "daemon-reload")
    assert done.returncode == 5
    found = {(one["subject"], one["what"]): one for one in json.loads(done.stdout)}
    assert found["unit", "ExecStart"]["there"] == "--budget 4"
    assert found["process", "arguments"]["there"] == "--budget 16"
    assert "daemon-reload" in found["unit", "loaded"]["there"]

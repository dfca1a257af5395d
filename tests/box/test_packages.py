"""Packages of a real apt: installed when a deployment needs them, and its lock respected.

The box has a GPU and a torch for it in name only, which is enough for a compiler to be missing; the
package that brings one is made here, and so is the repository, because the box reaches no mirror.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ddops.steps import packages
from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import Site

SMI = """#!/bin/sh
case $1 in --query-gpu*) echo "0, NVIDIA H200, 143771, 580.95.05, 9.0, 700.00";; esac
"""
REPOSITORY = """
set -e
mkdir -p /srv/debs/tree/DEBIAN /srv/debs/tree/usr/bin
cd /srv/debs
printf '#!/bin/sh\\nexit 0\\n' > tree/usr/bin/gcc && chmod 755 tree/usr/bin/gcc
printf 'Package: gcc\\nVersion: 1\\nArchitecture: all\\nMaintainer: a test\\nDescription: one\\n' \
  > tree/DEBIAN/control
dpkg-deb -b tree gcc.deb
{ dpkg-deb -f gcc.deb; echo Filename: ./gcc.deb; echo Size: $(stat -c %s gcc.deb)
  echo SHA256: $(sha256sum gcc.deb | cut -d' ' -f1); } > Packages
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/debs ./' > /etc/apt/sources.list
"""
CLOUD_INIT = """#!/bin/sh
[ "$2" = --wait ] && touch /run/done
[ -e /run/done ] && { echo status: done; exit 2; }
echo status: running
"""
HOLDER = """#!/usr/bin/python3
import fcntl, os, time
frontend, lists = (open(p, "w") for p in ("/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock"))
fcntl.lockf(frontend, fcntl.LOCK_EX)
fcntl.lockf(lists, fcntl.LOCK_EX)
open("/run/held", "w").close()
while not os.path.exists("/run/let-go"):
    time.sleep(0.05)
"""


@pytest.fixture
def site(equipped: Box, operator: Operator) -> Site:
    equipped.write("/usr/local/bin/nvidia-smi", SMI, 0o755)
    equipped.must("sh", "-c", REPOSITORY)
    equipped.write("/srv/cuda/torch/__init__.py", "")
    equipped.write("/srv/cuda/torch/version.py", "cuda = '12.8'\n")
    made = Site(operator, equipped)
    equipped.must("sed", "-i", 's|PYTHONPATH="|PYTHONPATH="/srv/cuda:|', "/srv/python")
    return made


def hold(box: Box) -> None:
    """Somebody else is at work with apt, until told to let go."""
    box.write("/usr/bin/unattended-upgrade", HOLDER, 0o755)
    box.must("sh", "-c", "setsid unattended-upgrade >/dev/null 2>&1 &")
    held, until = box.root / "run/held", time.monotonic() + 10
    while not Path(held).exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def lines(site: Site) -> list[str]:
    return [one["line"] for one in json.loads(site.ddops("plan", "--json").stdout)["commands"]]


def test_a_missing_compiler_is_installed_once_and_said_with_its_reason(site: Site) -> None:
    shown = site.ddops("plan").stdout
    assert "install -y --no-install-recommends gcc" in shown
    assert "Triton compiles a launcher" in shown
    site.deployed()
    assert site.box.must("dpkg-query", "-W", "-f", "${Status}", "gcc") == "install ok installed"
    assert lines(site) == []
    assert "nothing to change" in site.ddops("deploy", "--yes").stdout


def test_the_download_is_known_once_its_lists_are_there(site: Site) -> None:
    site.box.must("apt-get", "-q", "update")
    install = json.loads(site.ddops("plan", "--json").stdout)["commands"][1]
    size = int(site.box.must("stat", "-c", "%s", "/srv/debs/gcc.deb"))
    assert install["bytes"] in (size, 0)  # a `file:` source needs no copy
    assert install["takes_s"] >= 2


def test_cloud_init_is_waited_for_before_anything_is_installed(site: Site) -> None:
    """Its own program would be half a minute of packages: this one says what it says."""
    site.box.write("/usr/bin/cloud-init", CLOUD_INIT, 0o755)
    titles = [one["line"] for one in json.loads(site.ddops("plan", "--json").stdout)["commands"]]
    assert "cloud-init status --wait" in titles[0]
    done = site.ddops("deploy", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stderr.index("wait for cloud-init") < done.stderr.index("install gcc")
    assert lines(site) == []


def test_a_held_lock_is_waited_for_and_its_holder_told(site: Site) -> None:
    hold(site.box)
    running = site.start("deploy", "--yes")
    assert running.stderr
    told = next(line for line in running.stderr if "apt is in use" in line)
    assert "unattended-upgrade): waiting" in told
    site.box.must("touch", "/run/let-go")
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said


def test_a_lock_that_is_never_free_is_its_own_verdict_and_the_service_stays(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.deployed()
    before = site.status()["service"]["pid"]
    site.box.must("dpkg", "-r", "gcc")
    hold(site.box)
    monkeypatch.setattr(packages, "LOCK_WAIT_S", 1)
    done = site.ddops("deploy", "--yes")
    assert done.returncode == 11
    assert "apt's lock is held by process" in done.stderr
    assert "unattended-upgrade)" in done.stderr
    assert "hint: let it finish, then run the same command again" in done.stderr
    now = site.status()
    assert (now["ready"], now["service"]["pid"]) == (True, before)


def test_a_package_that_no_source_has_is_said_so(site: Site) -> None:
    site.box.must("sh", "-c", ": > /etc/apt/sources.list")
    done = site.ddops("deploy", "--yes")
    assert done.returncode == 11
    assert "apt refuses: " in done.stderr
    assert "hint: its sources lack the package" in done.stderr

"""Twenty moments at which ddops, its session or the link is cut: the next deploy finishes."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import HOME, Site

MOMENTS = 20
ALONE = {"cache", "env", "generations.json", "history.jsonl", "lock"}


def kill_ddops(box: Box, running: subprocess.Popen[str]) -> None:
    running.kill()


def kill_sessions(box: Box, running: subprocess.Popen[str]) -> None:
    box.run("pkill", "-KILL", "-f", "^sshd: root")


def cut_link(box: Box, running: subprocess.Popen[str]) -> None:
    box.link("down")
    time.sleep(1.0)
    box.link("up")


CUTS: list[Callable[[Box, subprocess.Popen[str]], None]] = [kill_ddops, kill_sessions, cut_link]


@pytest.mark.slow
def test_whatever_is_cut_the_next_deploy_finishes_and_nothing_is_left_behind(
    equipped: Box, operator: Operator
) -> None:
    site, chance = Site(operator, equipped), random.Random(20)
    site.deployed()
    for number in range(MOMENTS):
        budget = 8 + number
        drafter = {"source": "bundled"}
        site.inventory(decoding={"mode": "ddtree", "budget": budget, "drafter": drafter})
        running = site.start("deploy", "--yes")
        time.sleep(chance.uniform(0.2, 3.0))
        CUTS[number % len(CUTS)](equipped, running)
        running.communicate(timeout=120)
        done = site.ddops("deploy", "--yes")
        assert done.returncode == 0, f"moment {number}: {done.stderr}"
        now = site.status()
        assert (now["ready"], now["budget"], now["drift"]) == (True, budget, [])
        _nothing_is_left(equipped)
    assert "nothing to change" in site.ddops("deploy", "--yes").stdout


def _nothing_is_left(box: Box) -> None:
    engines = box.must("pgrep", "-fc", "ddtree serve").strip()
    assert engines == "1"
    until = time.monotonic() + 15  # a session that was cut ends by itself
    while box.run("pgrep", "-f", "flock|ddops-pid").stdout:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert set(box.must("ls", "-A", HOME).split()) <= ALONE

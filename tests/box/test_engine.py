"""The real engine with real weights as a hardened unit of a box behind SSH."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.box.box import Box, shared_paths
from tests.box.operator import Operator
from tests.box.site import Site
from tests.checkout import ROOT


@pytest.mark.slow
def test_the_real_engine_serves_under_systemd_and_comes_back_when_killed(
    bootable: None, smollm2_gguf: Path, operator: Operator
) -> None:
    with Box(share=[*shared_paths(), smollm2_gguf.parent]) as box:
        site = Site(operator, box, ROOT / "runtime")
        site.inventory(
            model={"name": "SmolLM2", "weights": {"source": f"file:{smollm2_gguf}"}},
            limits={"context_length": 512, "max_running_requests": 2},
            ready_timeout_s=200,
        )
        assert "Paris" in site.deployed()
        show = ("systemctl", "show", "ddops-b300", "--value", "-p")
        assert box.must(*show, "ActiveState") == "active\n"
        assert box.must(*show, "StatusText") == "serving\n"
        unit = "/etc/systemd/system/ddops-b300.service"
        verified = box.run("systemd-analyze", "verify", unit)
        assert (verified.returncode, verified.stderr) == (0, "")
        assert sys.executable in box.must("cat", "/srv/python")

        box.must("kill", "-9", box.must(*show, "MainPID").strip())
        until = time.monotonic() + 120
        while not (now := site.status())["ready"]:
            assert time.monotonic() < until
        assert now["service"]["restarts"] == 1
        assert site.ddops("stop").stdout == "stopped\n"
        assert "drained" in site.ddops("logs").stdout

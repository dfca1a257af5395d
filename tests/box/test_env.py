"""An environment on its way to a real box: over sshd, a long link, kills, and from box to box."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.box.box import Box
from tests.box.delay import long_way
from tests.box.operator import Operator
from tests.box.rootfs import key
from tests.checkout import ROOT
from tests.ddops import venvs
from tests.ddops.machine import Done, run_here, started

STATE = "/root/ddops"
TRIP_S = 0.04
WINDOW = 1 << 18  # bytes in flight: 6.5 MB/s a connection, so that the link is what limits


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = venvs.make(tmp_path_factory.mktemp("source"), venvs.distribution_python())
    venvs.patch(venv)
    return venv


@pytest.fixture(scope="module")
def shared(bootable: None) -> Iterator[Box]:
    with Box() as box:
        yield box


@dataclass
class Desk:
    operator: Operator
    source: Path

    def inventory(self, name: str, port: int, host: str = "127.0.0.1", **changes: Any) -> None:
        """`changes` replace keys of its deployment."""
        deployment = {
            "engine": "ddtree",
            "model": {"name": "stand-in", "weights": {"source": "file:/srv/model.gguf"}},
            "decoding": {"mode": "ar"},
            **changes,
        }
        reach = {"via": "ssh", "host": host, "user": "root", "port": port}
        about = {"reach": reach, "state_dir": STATE, "deployment": deployment}
        path = self.operator.home / "inventories" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(about), "utf-8")

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("DDOPS_")}
        return {**kept, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}

    def ddops(self, *words: str) -> Done:
        return run_here(words, self.operator.home, self.environment)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return started(words, self.operator.home, self.environment)

    def stream(self, *words: str) -> dict[str, Any]:
        done = self.ddops("env", "stream", *words, "--json")
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "said": done.stderr}


@pytest.fixture
def desk(operator: Operator, made: Path) -> Desk:
    return Desk(operator, made)


def works(box: Box) -> bool:
    box.must(f"{STATE}/venv/bin/python", "-c", "import markupsafe._speedups, near")
    return box.must(f"{STATE}/venv/bin/greet") == "hello, patched\n"


def left_behind(box: Box) -> list[str]:
    """Processes of ours, there and here, once they had time to see that nobody waits."""
    until = time.monotonic() + 8
    while True:
        there = box.run("pgrep", "-af", "python3 -c|zstd -d").stdout.splitlines()
        here = [p.pid for p in psutil.process_iter(["cmdline"]) if _ours(p.info["cmdline"] or [])]
        if not (there or here) or time.monotonic() > until:
            return [*there, *map(str, here)]
        time.sleep(0.1)


def _ours(line: list[str]) -> bool:
    return "Sent to a machine as text: write pieces" in " ".join(line)


def test_a_bare_box_gets_an_environment_over_a_long_link_3_times_as_fast_as_by_tar(
    desk: Desk, shared: Box, tmp_path: Path
) -> None:
    """With an interpreter that travels too: 70 MB."""
    shared.must("rm", "-rf", STATE)
    desk.source = venvs.make(tmp_path / "whole", sys.executable)
    venvs.patch(desk.source)
    with long_way(shared.address, trip_s=TRIP_S, window=WINDOW) as port:
        desk.inventory("far", port)
        done = desk.stream(str(desk.source), "far")
        (seconds,) = re.findall(r"stream [\d.]+ MB over 8 connections \(([\d.]+) s\)", done["said"])
        by_tar = rate_by_tar(desk, port)
        before = carried(shared)
        assert not desk.stream(str(desk.source), "far")["changed"]
        assert carried(shared) - before < 0.02 * done["size"]
    rate = done["sent"] / float(seconds)
    assert rate > 3 * by_tar, f"{rate / 1e6:.1f} MB/s, by tar {by_tar / 1e6:.1f} MB/s"
    assert works(shared)


def carried(box: Box) -> int:
    """Bytes over the box's cable so far, both ways."""
    counters = Path(f"/sys/class/net/ve-{box.name}/statistics")
    return sum(int((counters / f"{way}_bytes").read_text()) for way in ("rx", "tx"))


def rate_by_tar(desk: Desk, port: int) -> float:
    """Bytes a second of one `tar | ssh`."""
    ssh = (
        f"ssh -p {port} -i {key()} -o StrictHostKeyChecking=no"
        f" -o UserKnownHostsFile={desk.operator.known_hosts} root@127.0.0.1"
    )
    line = f"tar -C {desk.source.parent} -cf - venv | {ssh} 'cat > /dev/null'"
    began = time.monotonic()
    subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], check=True)
    size = sum(f.lstat().st_size for f in desk.source.rglob("*") if f.is_file())
    return size / (time.monotonic() - began)


@pytest.mark.parametrize(
    "victims",
    [
        ("ddops", "sshd", "ddops"),
        pytest.param(("sshd", "ddops", "link", "ddops") * 5, marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_whatever_is_killed_at_any_moment_the_next_run_finishes_and_nothing_is_left(
    desk: Desk, shared: Box, victims: Sequence[str]
) -> None:
    shared.must("rm", "-rf", STATE)
    cut = 0
    with long_way(shared.address, trip_s=TRIP_S, window=WINDOW // 32) as port:
        desk.inventory("far", port)
        whole_s = desk.stream(str(desk.source), "far")["seconds"]
        for victim in victims:
            if shared.run("test", "-e", f"{STATE}/venv").returncode == 0:
                shared.must("rm", "-rf", STATE)  # the one before came through
            first = desk.start("env", "stream", str(desk.source), "far")
            time.sleep(1.0 + random.uniform(0.0, 0.9) * whole_s)
            match victim:
                case "ddops":
                    first.kill()
                case "sshd":
                    shared.run("pkill", "-KILL", "-f", "^sshd: root")
                case "link":
                    shared.link("down")
            first.communicate(timeout=90)
            shared.link("up")
            cut += first.returncode != 0
            assert left_behind(shared) == []
        until = time.monotonic() + 60
        while (done := desk.ddops("env", "stream", str(desk.source), "far")).returncode == 5:
            assert time.monotonic() < until, done.stderr  # the lock, for a moment
        assert done.returncode == 0, done.stderr
    assert cut > 0
    assert works(shared)
    (used,) = shared.must("ls", "-A", f"{STATE}/envs").split()
    assert shared.must("readlink", f"{STATE}/venv") == f"envs/{used}\n"


def test_one_box_gives_its_environment_to_another(desk: Desk, shared: Box, box: Box) -> None:
    shared.must("rm", "-rf", STATE)
    for name, there in (("a", shared), ("b", box)):
        desk.inventory(name, 22, there.address)
    desk.stream(str(desk.source), "a")
    done = desk.stream("a", "b")
    assert "greet" in {patch["package"] for patch in done["patches"]}
    assert works(box)
    assert "files are what they were" in desk.ddops("env", "verify", "b").stdout


def test_a_bare_box_gets_what_its_engine_runs_in_and_serves_after_one_command(
    desk: Desk, box: Box, tmp_path: Path
) -> None:
    venv = venvs.make(tmp_path / "own", venvs.distribution_python())
    venvs.engine(venv)
    box.write("/srv/model.gguf", "weights")
    desk.inventory("bare", 22, box.address, environment={"source": str(venv)}, ready_timeout_s=60)
    planned = json.loads(desk.ddops("plan", "bare", "--json").stdout)
    assert [one["kind"] for one in planned["commands"]] == ["stream"]

    done = desk.ddops("deploy", "bare", "--yes")
    assert done.returncode == 0, done.stderr
    first = engine_of(box)
    assert first.startswith(f"{STATE}/envs/")
    assert "nothing to change" in desk.ddops("deploy", "bare", "--yes").stdout

    venvs.patch(venv)
    assert desk.ddops("deploy", "bare", "--yes").returncode == 0
    assert engine_of(box) != first
    assert desk.ddops("rollback", "bare", "--yes").returncode == 0
    assert engine_of(box) == first


def engine_of(box: Box) -> str:
    """The interpreter that runs the service now."""
    pid = box.must("systemctl", "show", "-p", "MainPID", "--value", "ddops-bare").strip()
    return box.must("cat", f"/proc/{pid}/cmdline").split("\0")[0]

"""A bench killed by SIGKILL at every point where it writes, and resumed: nothing lost or doubled.

The process kills itself with `kill -9` just before or just after its n-th file got its name, so the
points are the same on a quick machine and on a loaded one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ddops.flows.bench_machine import CELLS, BenchMachine

DIES = """
import os, signal, sys
from ddops.host import atomic

left, when, rename = int(sys.argv[1]), sys.argv[2], os.replace

def replace(*names, **options):
    global left
    left -= 1
    if left == 0 and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*names, **options)
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = replace
from ddops.cli.app import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BenchMachine]:
    made = BenchMachine(tmp_path)
    yield made
    made.close()


def test_killed_at_every_write_and_resumed_it_keeps_every_record(box: BenchMachine) -> None:
    kept: dict[str, bytes] = {}
    deaths = 0
    for turn, write in enumerate(range(2, 60, 2)):
        ended = dying(box, write, ("after", "before")[turn % 2])
        now = box.files
        assert {name: data for name, data in now.items() if name in kept} == kept
        assert all(json.loads(data) for data in now.values())
        assert len(set(box.good)) == len(box.good)
        kept = now
        if ended != -signal.SIGKILL:
            break
        deaths += 1
    assert deaths >= 3
    assert box.bench().returncode == 0
    assert box.good == sorted(CELLS)
    assert sorted(box.files) == sorted(f"{cell}.json" for cell in CELLS)
    assert {name: data for name, data in box.files.items() if name in kept} == kept
    assert box.budget == 16
    assert not (box.run / "found.json").exists()


def dying(box: BenchMachine, write: int, when: str) -> int:
    argv = ("bench", "stand", "--matrix", "small.yaml", "--yes")
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(write), when, *argv],
        cwd=box.folder,
        env=box.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode

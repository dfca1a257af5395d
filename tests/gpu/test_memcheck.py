"""No replayed kernel reads or writes outside its buffers."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu
SANITIZER = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
REPLAYS = [
    *(f"test_capture.py::test_replay_is_eager_on_changing_trees[{n}]" for n in (8, 12, 16, 32)),
    *(f"test_latent_attention.py::test_replay_is_eager_on_changing_trees[{n}]" for n in (13, 65)),
    *(f"test_experts.py::test_int4_replays_when_the_routing_changes[{n}]" for n in (9, 65)),
]


@pytest.mark.skipif(not shutil.which(SANITIZER), reason="CUDA's compute-sanitizer is not here")
@pytest.mark.parametrize("replay", REPLAYS)
def test_a_replayed_step_touches_only_what_is_its_own(replay: str) -> None:
    checked = (
        SANITIZER,
        "--tool",
        "memcheck",
        "--error-exitcode",
        "9",
        "--target-processes",
        "all",
    )
    run = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"tests/gpu/{replay}",
    )
    done = subprocess.run([*checked, *run], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout

"""No replayed kernel reads or writes outside its buffers."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu
SANITIZER = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
REPLAYS = "tests/gpu/test_capture.py::test_replay_is_eager_on_changing_trees"


@pytest.mark.skipif(not shutil.which(SANITIZER), reason="CUDA's compute-sanitizer is not here")
@pytest.mark.parametrize("budget", [8, 12, 16, 32])
def test_a_replayed_step_touches_only_what_is_its_own(budget: int) -> None:
    checked = (
        SANITIZER,
        "--tool",
        "memcheck",
        "--error-exitcode",
        "9",
        "--target-processes",
        "all",
    )
    replay = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"{REPLAYS}[{budget}]",
    )
    done = subprocess.run([*checked, *replay], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout

"""Every kernel compiles for the GPUs of the field, none of which is here, within their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# about as long as each other
HALVES = (("attention", "latents"), ("products", "mixtures", "rows", "trees", "draws"))


@pytest.mark.parametrize("arch", [90, 100, 103, 120], ids=lambda arch: f"sm_{arch}")
def test_every_scene_compiles_within_shared_memory(arch: int, tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.ops.aot", str(arch), *scenes],
            cwd=ROOT,
            env=kept | {"TRITON_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for scenes in HALVES
    ]
    for process in running:
        out, errors = process.communicate()
        assert process.returncode == 0, errors[-2000:]
        launches = json.loads(out)
        assert launches
        for launch in launches:
            assert launch["shared"] <= launch["limit"], launch
            assert launch["ptx"].startswith(f"sm_{arch}")

"""Every kernel compiles for the GPUs of the field, none of which is here, within their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCENES = ("attention", "products", "rows", "trees", "draws")


@pytest.mark.parametrize("arch", [90, 100, 103, 120], ids=lambda arch: f"sm_{arch}")
@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_compiles_within_shared_memory(arch: int, scene: str, tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.ops.aot", str(arch), scene],
        cwd=ROOT,
        env=kept | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    launches = json.loads(done.stdout)
    assert launches
    for launch in launches:
        assert launch["shared"] <= launch["limit"], launch
        assert launch["ptx"].startswith(f"sm_{arch}")

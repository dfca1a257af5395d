"""The kernels of a file's `SCENES`, compiled for the GPUs of the field, none of which is here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.checkout import ROOT

ARCHITECTURES = (90, 100, 103, 120)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "architecture" in metafunc.fixturenames:
        metafunc.parametrize("architecture", ARCHITECTURES, ids=lambda number: f"sm_{number}")


@pytest.fixture(scope="module")
def launches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """In a process of its own: in this one kernels are interpreted."""
    kept = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    numbers = ",".join(map(str, ARCHITECTURES))
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.ops.aot", numbers, *request.module.SCENES],
        cwd=ROOT,
        env=kept
        | {
            "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("kernels")),
            "TRITON_DISABLE_LINE_INFO": "1",  # the same code, a twelfth sooner
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def misfits(launches: list[dict[str, Any]], architecture: int) -> list[dict[str, Any]]:
    """What was compiled for another GPU, or needs more shared memory than this one has."""
    compiled = [launch for launch in launches if launch["architecture"] == architecture]
    assert compiled
    whole = [launch for launch in compiled if launch["ptx"] is not None]
    assert {launch["kernel"] for launch in whole} == {launch["kernel"] for launch in compiled}
    elsewhere = [launch for launch in whole if not launch["ptx"].startswith(f"sm_{architecture}")]
    return elsewhere + [launch for launch in compiled if launch["shared"] > launch["limit"]]

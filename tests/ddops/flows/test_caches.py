"""Kernels that Triton compiled here are found again where they were brought to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddops.flows.caches import bring
from ddops.host.local import Local
from ddops.host.stream import End
from ddops.spec.command import Result, Run

# The time of the compiled file tells whether it was compiled again.
COMPILE = """
import json, os, pathlib, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 2)

source = ASTSource(double, {"x": "*fp32", "BLOCK": "constexpr"}, constexprs={"BLOCK": 64})
made = triton.compile(source, GPUTarget("cuda", 90, 32))
(cubin,) = pathlib.Path(os.environ["TRITON_CACHE_DIR"]).glob("*/double.cubin")
print(json.dumps([str(cubin), cubin.stat().st_mtime_ns, len(made.asm["cubin"])]))
"""


def compiled(cache: Path, script: Path) -> tuple[str, int, int]:
    """Path, time and size of the kernel, compiled or found."""
    script.write_text(COMPILE, "utf-8")
    env = {**os.environ, "TRITON_CACHE_DIR": str(cache / "triton"), "TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    path, time, size = json.loads(done.stdout)
    return path, time, size


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("kernels")
    compiled(folder / "cache", folder / "kernel.py")
    return folder


HERE = End(Local(), sys.executable)


def test_a_kernel_is_not_compiled_again_where_its_cache_was_brought_to(
    kernels: Path, tmp_path: Path
) -> None:
    old, new = kernels / "cache", tmp_path / "cache"
    assert bring(HERE, str(old), HERE, str(new)) is None
    path, time, size = compiled(new, kernels / "kernel.py")
    assert path.startswith(str(new))
    _, then, same = compiled(old, kernels / "kernel.py")
    assert abs(time - then) < 1000
    assert size == same
    assert not (new / ".coming").exists()


def test_what_is_there_already_stays(kernels: Path, tmp_path: Path) -> None:
    new = tmp_path / "cache"
    bring(HERE, str(kernels / "cache"), HERE, str(new))
    (listed,) = new.glob("triton/*/__grp__double.json")
    listed.write_text("mine", "utf-8")
    assert bring(HERE, str(kernels / "cache"), HERE, str(new)) is None
    assert listed.read_text("utf-8") == "mine"


def test_a_source_that_compiled_nothing_is_no_fault(tmp_path: Path) -> None:
    assert bring(HERE, str(tmp_path / "absent"), HERE, str(tmp_path / "new")) is None


class OtherGpu(Local):
    def run(self, command: Run) -> Result:
        line = "0, NVIDIA B300 SXM6, 281000, 580.95.05, 10.3, 1100.0\n"
        return Result(argv=command.argv, code=0, stdout=line, stderr="", seconds=0.0)


def test_for_another_gpu_they_stay_behind_and_the_user_is_told(
    kernels: Path, tmp_path: Path
) -> None:
    there = End(OtherGpu(), sys.executable)
    told = bring(HERE, str(kernels / "cache"), there, str(tmp_path / "new"))
    assert told is not None
    assert "NVIDIA B300 SXM6 with driver 580.95.05" in told
    assert not (tmp_path / "new").exists()


def test_a_disk_that_cannot_take_them_costs_time_and_nothing_else(
    kernels: Path, tmp_path: Path
) -> None:
    (tmp_path / "new").write_text("a file in the way", "utf-8")
    told = bring(HERE, str(kernels / "cache"), HERE, str(tmp_path / "new"))
    assert told is not None
    assert told.startswith("compiled kernels did not come: ")

"""What is sampled, and where to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ddops.flows.bench_machine import eventually
from tests.ddops.host.sampling import free


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Of samples; whoever still writes to it when the test is over is ended."""
    path = tmp_path / "samples" / "cell.jsonl"
    yield path
    if path.exists():
        path.with_suffix(".stop").touch()
        eventually(lambda: free(path))


@pytest.fixture
def rapl(tmp_path: Path) -> Path:
    """A powercap tree of one package with its cores and the memory beside it."""
    for zone, name in (("0", "package-0"), ("0:0", "core"), ("1", "psys")):
        folder = tmp_path / "powercap" / f"intel-rapl:{zone}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text("262143328850\n")
        (folder / "energy_uj").write_text("5000000\n")
    return tmp_path / "powercap"


@pytest.fixture
def service() -> Iterator[int]:
    """The process that was started; another of its own has 50 MiB."""
    worker = "x = bytearray(50 << 20); import sys; print(flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", parent], **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # the worker has its memory
        yield process.pid
        process.stdin.close()

"""The sampler on a real driver, by its library and its tool: power that a known load explains."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ddops.analysis.telemetry import Expected, telemetry
from ddops.host import sampler
from ddops.host.local import Local
from ddops.host.sampler import Orders
from ddops.spec.telemetry import GpuUse, Telemetry, Window

pytestmark = pytest.mark.gpu
SECONDS = 6.0  # utilisation is a mean over up to a second, and the count of energy moves in steps
SETTLE = 1.5


def load(work: Callable[[], object], until: float) -> None:
    while time.monotonic() < until:
        for _ in range(20):
            work()
        torch.cuda.synchronize()


def sampled(work: Callable[[], object], file: Path) -> Telemetry:
    sampler.start(Local(), sys.executable, str(file), Orders(pid=os.getpid(), limit_s=120))
    load(work, time.monotonic() + SETTLE)
    opened = time.monotonic()
    load(work, opened + SECONDS + 0.5)
    text = sampler.stop(Local(), sys.executable, str(file))
    window = Window(opened=opened, length_s=SECONDS, clock_error_s=0.0)
    gpus = torch.cuda.device_count()
    return telemetry(text, window, Expected(tokens=1.0, gpus=gpus, used=1))


def mine(told: Telemetry) -> GpuUse:
    """Of the GPU that torch works on: others may be hidden from it, and full of somebody else's.

    It serves, unless this is a container whose processes have other numbers outside.
    """
    asked = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
    said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    rows = (line.split(", ") for line in said.splitlines())
    found = {uuid.removeprefix("GPU-"): int(index) for index, uuid in rows}
    own = torch.cuda.get_device_properties(torch.cuda.current_device())
    index = found[str(own.uuid).removeprefix("GPU-")]
    assert told.serving == (index,) if told.serving_by == "processes" else told.missing
    return next(gpu for gpu in told.gpus if gpu.index == index)


def product() -> Callable[[], object]:
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    return lambda: a @ a


def copy() -> Callable[[], object]:
    a = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    return lambda: b.copy_(a)


def test_a_product_draws_most_of_the_power_and_a_copy_draws_less(tmp_path: Path) -> None:
    hot, cool = (sampled(make(), tmp_path / "samples.jsonl") for make in (product, copy))
    for told in (hot, cool):
        gpu = mine(told)
        assert told.faults == ()
        assert gpu.busy is not None
        assert gpu.busy > 0.9
        assert gpu.energy_j is not None
        if gpu.counted_j is not None:
            assert gpu.counted_j == pytest.approx(gpu.energy_j, rel=0.1)
    most, less = mine(hot), mine(cool)
    assert most.energy_j is not None
    assert less.energy_j is not None
    assert most.limit_w is not None
    assert 0.5 < most.energy_j / SECONDS / most.limit_w < 1.1
    assert less.energy_j < most.energy_j


def test_the_tool_and_the_library_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_library = sampled(product(), tmp_path / "samples.jsonl")
    if by_library.source != "nvml":
        pytest.skip(f"no library here: {by_library.missing}")
    without = sampler._GPUS.replace("import pynvml", "import no_such_module as pynvml")
    monkeypatch.setattr(sampler, "_GPUS", without)
    by_tool = sampled(product(), tmp_path / "samples.jsonl")
    assert by_tool.source == "nvidia-smi"
    assert by_tool.faults == ()
    tool, library = mine(by_tool), mine(by_library)
    assert tool.energy_j == pytest.approx(library.energy_j, rel=0.1)
    assert tool.memory_mib == pytest.approx(library.memory_mib, rel=0.05)

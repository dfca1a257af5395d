"""What a sampler tells of GPUs: by the driver's library and its tool, both made up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ddops.analysis.telemetry import Expected, telemetry
from ddops.host import sampler
from ddops.host.local import Local
from ddops.spec.telemetry import Telemetry, Window
from tests.ddops.flows.bench_machine import eventually
from tests.ddops.host.sampling import children_of, start, stop

DRIVER = Path(__file__).parent / "driver"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    built = str(folder / "libnvidia-ml.so.1")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, str(DRIVER / "nvml.c")], check=True)
    return folder


@needs_cc
def test_the_library_tells_of_each_gpu(
    file: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    start(file)
    head, *lines, _ = stop(file)
    assert (head["source"], head["gpus"]) == (
        "nvml",
        [[0, "NVIDIA H200", 700.0], [1, "NVIDIA H200", 700.0]],
    )
    assert {tuple(line["u"]) for line in lines if "u" in line} == {()}  # 699 is not of the service
    first, second = next(line["g"] for line in lines if "g" in line)
    assert first[:9] == [0, 420.0, 97, 41, 120000, 1980, 3201, 4, 61]
    assert second[:9] == [1, 100.0, 0, 0, 618, 1980, 3201, 0, 61]  # 616 of it the driver's own
    counted = [line["g"][0][9] for line in lines if "g" in line]
    assert counted == sorted(counted)


@needs_cc
def test_what_it_writes_is_what_a_record_is_made_of(
    file: Path, library: Path, rapl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    start(file, powercap=str(rapl))
    lines = sampler.stop(Local(), sys.executable, str(file))
    times = [json.loads(line)["t"] for line in lines.splitlines()]
    window = Window(opened=times[1], length_s=times[-2] - times[1], clock_error_s=0.0)
    told = telemetry(lines, window, Expected(tokens=1, gpus=2, used=1))
    assert {fault.kind for fault in told.faults} <= {"gap"}  # of cores that others use
    assert (told.serving, told.serving_by, told.source) == ((0,), "memory", "nvml")
    assert [*told.missing] == ["processes on GPUs"]
    assert told.gpus[0].mean_w == 420.0
    assert told.gpus[0].throttles == {"power limit": 1.0}


def served(file: Path) -> Telemetry:
    lines = sampler.stop(Local(), sys.executable, str(file))
    window = Window(opened=json.loads(lines.splitlines()[0])["t"], length_s=0.1, clock_error_s=0.0)
    return telemetry(lines, window, Expected(tokens=1, gpus=2, used=1))


@needs_cc
def test_a_gpu_serves_where_the_driver_lists_a_process_of_the_service_however_full_others_are(
    file: Path, service: int, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_SERVICE", str(children_of(service)[0]))
    start(file, pid=service)
    told = served(file)
    assert (told.serving, told.serving_by) == ((1,), "processes")
    assert [*told.missing] == ["packages"]


@needs_cc
def test_a_driver_that_lists_no_processes_says_so(
    file: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_HIDDEN", "1")
    start(file)
    told = served(file)
    assert (told.serving, told.serving_by) == ((0,), "memory")
    assert told.missing["processes on GPUs"] == "the driver lists none, so the fullest serve"


@needs_cc
def test_a_gpu_that_is_lost_is_left_out_and_the_others_go_on(
    file: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_LOST", str(tmp_path / "lost"))
    start(file)
    (tmp_path / "lost").touch()
    seen = [[row[0] for row in line["g"]] for line in stop(file) if "g" in line]
    assert (seen[0], seen[-1]) == ([0, 1], [0])


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{DRIVER}:{os.environ['PATH']}")


@pytest.mark.usefixtures("tool")
def test_the_tool_tells_where_the_library_does_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SERVICE", str(os.getpid()))
    start(file)
    eventually(lambda: '"g"' in file.read_text("utf-8"))
    head, *lines, end = stop(file)
    assert head["source"] == "nvidia-smi"
    assert head["gpus"] == [[0, "NVIDIA H200", 700.0], [1, "NVIDIA H200", None]]
    rows = {line["g"][0][0]: line["g"][0] for line in lines if "g" in line}
    assert rows[0] == [0, 421.35, 97, 41, 120000, 1980, 3201, 4, 61, None]
    assert rows[1][:3] == [1, 421.35, 0]
    assert {tuple(line["u"]) for line in lines if "u" in line} == {(1,)}
    times = [line["t"] for line in lines if "g" in line]
    assert head["t"] - 0.01 <= min(times) <= max(times) <= end["t"]  # its stamps are milliseconds


@pytest.mark.usefixtures("tool")
def test_an_older_tool_is_asked_in_its_own_words(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OLD", "1")
    start(file)
    eventually(lambda: '"g"' in file.read_text("utf-8"))
    row = next(line["g"][0] for line in stop(file) if "g" in line)
    assert (row[1], row[7]) == (398.7, 0)


@pytest.mark.usefixtures("tool")
def test_the_tool_does_not_outlive_a_sampler_that_is_killed(file: Path) -> None:
    start(file)
    running = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    (mine,) = (pid for pid in running if str(file) in command_of(pid))
    (tool,) = children_of(mine)
    os.kill(mine, signal.SIGKILL)
    eventually(lambda: "nvidia-smi" not in command_of(tool))


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    return ""

"""The sampler as the process it is, on this machine; only the driver and powercap are made up."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ddops.analysis.telemetry import Expected, telemetry
from ddops.errors import HostError
from ddops.host import box_gpus, box_sample, sampler
from ddops.host.local import Local
from ddops.host.sampler import Orders
from ddops.spec.telemetry import Window
from tests.ddops.flows.bench_machine import eventually

DRIVER = Path(__file__).parent / "driver"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


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


def free(path: Path) -> bool:
    with path.open("a") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def start(file: Path, **orders: Any) -> None:
    told: dict[str, Any] = {"pid": os.getpid(), "limit_s": 600, "powercap": "/nowhere", **orders}
    sampler.start(Local(), sys.executable, str(file), Orders(**told))


def stop(file: Path) -> list[dict[str, Any]]:
    text = sampler.stop(Local(), sys.executable, str(file))
    return [json.loads(line) for line in text.splitlines()]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_a_window_lies_between_its_samples(file: Path) -> None:
    start(file)
    first = lines_of(file)
    said = stop(file)
    assert said[: len(first)] == first
    assert [line["t"] for line in said] == sorted(line["t"] for line in said)
    assert said[-1]["end"] == "stopped"
    head, *samples = said[:-1]
    assert head["cores"] == len(os.sched_getaffinity(0))
    assert len(samples) >= 2
    assert all(line.keys() == {"t", "c", "m", "p", "s"} for line in samples)
    used, there = (b - a for a, b in zip(samples[0]["c"], samples[-1]["c"], strict=True))
    assert 0 <= used <= there + 0.02  # ticks
    assert 0 < samples[0]["m"] < head["memory"]


def test_nothing_of_it_stays(file: Path) -> None:
    start(file)
    stop(file)
    assert list(file.parent.iterdir()) == []


def test_what_cannot_be_read_is_said(file: Path) -> None:
    start(file)
    head = stop(file)[0]
    assert (head["source"], head["gpus"], head["packages"]) == (None, [], [])
    assert "nvidia-smi tells of no GPU" in head["why"]["gpus"]
    assert head["why"]["packages"] == "this kernel tells no energy of CPU packages"


def test_the_service_is_all_that_its_first_process_started(file: Path) -> None:
    worker = "x = bytearray(50 << 20); import sys; print(flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", parent], **pipes) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        service.stdout.readline()  # the worker has its memory
        start(file, pid=service.pid)
        samples = stop(file)[1:-1]
        service.stdin.close()
    assert samples[0]["p"][1] > 50 << 20


def test_a_start_that_is_asked_for_again_leaves_the_first_alone(file: Path) -> None:
    """As a connection does that broke before the answer came."""
    start(file, token="one")
    before = lines_of(file)[0]
    start(file, token="one")
    assert stop(file)[0] == before


def test_another_start_ends_what_a_killed_bench_left(file: Path) -> None:
    start(file, token="one")
    before = lines_of(file)[0]
    start(file, token="another")
    said = stop(file)
    assert said[0] != before
    assert [line["end"] for line in said if "end" in line] == ["stopped"]


def test_it_ends_at_its_deadline_and_keeps_what_it_saw(file: Path) -> None:
    start(file, limit_s=0.2)
    eventually(lambda: free(file))
    assert stop(file)[-1]["end"] == "deadline"


def test_it_ends_when_nobody_holds_the_lock_any_more(file: Path, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w"):
        start(file, lock=str(tmp_path / "lock"))
        eventually(lambda: len(lines_of(file)) > 15)  # it has looked at it again
        assert not free(file)
        other = (tmp_path / "lock").open("w")  # the next bench is quick
    with other:
        eventually(lambda: free(file))
    assert stop(file)[-1]["end"] == "abandoned"


def test_a_lock_that_it_never_saw_held_ends_nothing(file: Path, tmp_path: Path) -> None:
    start(file, lock=str(tmp_path / "lock"))
    eventually(lambda: len(lines_of(file)) > 15)
    assert stop(file)[-1]["end"] == "stopped"


def test_a_sampler_that_cannot_begin_says_why(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(HostError, match="cannot be sampled: IsADirectoryError"):
        start(file)
    file.rmdir()


def test_there_is_nothing_to_fetch_where_nothing_was_sampled(file: Path) -> None:
    with pytest.raises(HostError, match="nothing was sampled"):
        stop(file)


def test_packages_tell_their_energy_and_where_it_wraps(file: Path, rapl: Path) -> None:
    start(file, powercap=str(rapl))
    head, *samples, _ = stop(file)
    assert head["packages"] == [["package-0", 262143328850]]
    assert {tuple(line["e"]) for line in samples} == {(5000000,)}


def test_a_counter_that_may_not_be_read_is_said(file: Path, rapl: Path) -> None:
    counter = rapl / "intel-rapl:0" / "energy_uj"
    counter.unlink()
    counter.mkdir()  # root may read any file, and no directory
    start(file, powercap=str(rapl))
    head = stop(file)[0]
    assert head["packages"] == []
    assert head["why"]["packages"] == "energy_uj cannot be read: Is a directory"


@pytest.mark.parametrize("script", [box_gpus, box_sample])
def test_an_older_python_of_a_box_reads_it(script: ModuleType) -> None:
    assert script.__file__ is not None
    ast.parse(Path(script.__file__).read_text("utf-8"), feature_version=(3, 9))


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
    assert (told.serving, told.source, told.missing) == ((0,), "nvml", {})
    assert told.gpus[0].mean_w == 420.0
    assert told.gpus[0].throttles == {"power limit": 1.0}


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
def test_the_tool_tells_where_the_library_does_not(file: Path) -> None:
    start(file)
    eventually(lambda: '"g"' in file.read_text("utf-8"))
    head, *lines, end = stop(file)
    assert head["source"] == "nvidia-smi"
    assert head["gpus"] == [[0, "NVIDIA H200", 700.0], [1, "NVIDIA H200", None]]
    rows = {line["g"][0][0]: line["g"][0] for line in lines if "g" in line}
    assert rows[0] == [0, 421.35, 97, 41, 120000, 1980, 3201, 4, 61, None]
    assert rows[1][:3] == [1, 421.35, 0]
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
    (tool,) = map(int, Path(f"/proc/{mine}/task/{mine}/children").read_text().split())
    os.kill(mine, signal.SIGKILL)
    eventually(lambda: "nvidia-smi" not in command_of(tool))


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    return ""

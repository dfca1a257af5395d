"""A bench with a box that is sampled beside it, and what is told where it cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddops.analysis.bottleneck import LABELS
from ddops.analysis.telemetry import Expected, telemetry
from ddops.errors import HostError
from ddops.flows.bundle_verify import verify
from ddops.flows.site import Site
from ddops.flows.telemetry import clock_of, orders_of, sampled
from ddops.flows.voice import Silent
from ddops.host.scripted import Scripted
from ddops.spec.box import Box
from ddops.spec.command import Result
from ddops.spec.load import load_box
from tests.ddops import sampled as samples
from tests.ddops.flows.bench_machine import BenchMachine

CELLS = ["ar.c1.r1", "ddtree-b8.c1.r1"]
NONE = Expected(tokens=52, gpus=0, used=0)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchMachine]:
    """Measured once; the tests that use it leave it as it is."""
    made = BenchMachine(tmp_path_factory.mktemp("measured"))
    made.matrix(concurrency=[1])
    try:
        done = made.bench()
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.close()


@pytest.fixture
def box() -> Box:
    return load_box("local")


def test_a_record_tells_what_the_box_did_meanwhile(measured: BenchMachine) -> None:
    for cell in CELLS:
        told = measured.record(cell).telemetry
        assert told is not None
        assert told.samples is not None
        assert told.host is not None, told.faults
        assert told.window is not None
        assert told.host.service_memory_peak is not None
        assert told.host.sampler_cores is not None
        assert told.window.length_s == measured.record(cell).window_s
        kept = (measured.run / told.samples).read_text("utf-8")
        again = telemetry(kept, told.window, NONE)
        assert again.model_copy(update={"samples": told.samples}) == told
    assert len(list((measured.run / "telemetry").iterdir())) == len(CELLS)
    assert list(measured.box_home.glob("samples*")) == []


def test_report_and_bundle_tell_it_too_and_the_bundle_verifies(
    measured: BenchMachine, tmp_path: Path
) -> None:
    done = measured.ddops("bundle", "create", str(measured.run), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert verify(folder).findings == ()
    assert len(list((folder / "data" / "telemetry").iterdir())) == len(CELLS)
    said = (folder / "data" / "report" / "report.md").read_text("utf-8")
    assert "## Power and limits" in said
    assert "Load over time" in (folder / "data" / "report" / "report.html").read_text("utf-8")


def test_what_limited_a_cell_stands_in_table_and_data(measured: BenchMachine) -> None:
    shown = measured.bench("--verbose")
    assert "limited by" in shown.stdout.splitlines()[0]
    power = json.loads(measured.bench("--json").stdout)["cells"][0]["power"]
    host = measured.record(CELLS[0]).telemetry
    assert host is not None
    assert host.host is not None
    assert (power["service_cores"], power["cores"]) == (host.host.service_cores, host.host.cores)
    assert power["bottleneck"]["kind"] in LABELS
    assert f"{CELLS[0]}: " in shown.stderr
    assert power["bottleneck"]["why"] in shown.stderr


class Listener(Silent):
    """Keeps what it was warned of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_a_box_that_cannot_be_sampled_is_told_and_nothing_fails(box: Box) -> None:
    voice, python = Listener(), Site(Scripted(), box).place.engine_python
    full = "Traceback\nOSError: No space left\n"
    refusing = Result(argv=(python,), code=1, stdout="", stderr=full, seconds=0.0)
    site = Site(Scripted(answers={"date": "1796000000.5\n", python: refusing}), box)
    with sampled(site, "ar.c1.r1", orders_of(site, 1, 60.0), voice) as beside:
        pass
    told = beside.over(5.0, 10.0, NONE)
    assert [fault.kind for fault in told.faults] == ["no-samples"]
    assert told.faults[0].detail.endswith("cannot be sampled: OSError: No space left")
    assert len(voice.warnings) == 1
    assert beside.keep(Path("/nowhere"), "ar.c1.r1") is None


def test_the_window_is_laid_over_the_samples_by_the_clock_of_the_box(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours says 70 s where the wall clock of the box says that the window opens."""
    python = Site(Scripted(), box).place.engine_python
    opens = samples.WINDOW.opened + 5e8
    host = Scripted(answers={"date": f"{opens - 20}\n", python: samples.text(gpus=0)})
    monkeypatch.setattr("ddops.flows.telemetry.time.monotonic", lambda: 50.0)
    site = Site(host, box)
    with sampled(site, "ar.c1.r1", orders_of(site, 1, 60.0), Silent()) as beside:
        pass
    told = beside.over(70.0, 10.0, NONE)
    assert told.window == samples.WINDOW.model_copy(update={"clock_error_s": 0.0})
    assert told.host is not None
    assert told.host.service_cores == 1.5


def test_the_quickest_answer_tells_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 10.0, 10.2, 20.0, 24.0])
    monkeypatch.setattr("ddops.flows.telemetry.time.monotonic", lambda: next(ticks))
    clock = clock_of(Scripted(answers={"date": "1000.0\n"}))
    assert clock.ahead_s == pytest.approx(989.9)
    assert clock.error_s == pytest.approx(0.1)


def test_a_box_without_a_clock_is_not_sampled() -> None:
    with pytest.raises(HostError, match="does not tell the time"):
        clock_of(Scripted(answers={"date": "+%s.N\n"}))


def test_a_sampler_outlives_no_bench(box: Box) -> None:
    orders = orders_of(Site(Scripted(), box), 4711, 60.0)
    assert (orders.pid, orders.limit_s) == (4711, 420.0)
    assert orders.lock == Site(Scripted(), box).place.lock

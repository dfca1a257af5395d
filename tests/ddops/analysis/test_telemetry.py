"""Energy is the area under power over the window, and is not told when anything speaks against it.

The reader of the samples and the reasons against energy (`samples.py`, `faults.py`) are seen here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ddops.analysis.telemetry import Expected, absent, telemetry
from ddops.spec.telemetry import Telemetry, Window
from tests.ddops import sampled
from tests.ddops.sampled import WINDOW, Line

ONE = Expected(tokens=2000, gpus=1, used=1)
TWO = Expected(tokens=2000, gpus=2, used=2)
NONE = Expected(tokens=2000, gpus=0, used=0)


def of(text: str, window: Window = WINDOW, expected: Expected = ONE) -> Telemetry:
    return telemetry(text, window, expected)


def kinds(told: Telemetry) -> list[str]:
    return [fault.kind for fault in told.faults]


def between(start: float, end: float) -> Callable[[Line], Line | None]:
    """Drops the lines of these seconds of the window."""

    def drop(line: Line) -> Line | None:
        return None if start < line["t"] - WINDOW.opened < end else line

    return drop


def gpus(change: Callable[[float, list[Any]], list[Any] | None]) -> Callable[[Line], Line]:
    """Changes the rows of GPUs, or drops them; told the seconds since the window opened."""

    def changed(line: Line) -> Line:
        if "g" not in line:
            return line
        rows = [change(line["t"] - WINDOW.opened, row) for row in line["g"]]
        return {**line, "g": [row for row in rows if row is not None]}

    return changed


def test_energy_is_power_over_the_window() -> None:
    told = of(sampled.text())
    assert told.faults == ()
    assert (told.energy_of, told.energy_j, told.j_per_token) == ("gpus", 4000.0, 2.0)
    (gpu,) = told.gpus
    assert (gpu.mean_w, gpu.peak_w, gpu.limit_w) == (400.0, 400.0, 700.0)
    assert (gpu.busy, gpu.memory_busy, gpu.memory_mib) == (1.0, 0.5, 80_000)


def test_trapezoids_are_exact_where_power_is_linear() -> None:
    assert of(sampled.text(watts=sampled.ramp)).energy_j == 500.0


def test_the_edges_are_cut_between_two_samples() -> None:
    odd = Window(opened=WINDOW.opened + 0.033, length_s=9.05, clock_error_s=0.0)
    exact = 10 * ((0.033 + 9.05) ** 2 - 0.033**2) / 2
    assert of(sampled.text(watts=sampled.ramp), odd).energy_j == pytest.approx(exact, abs=1e-3)


def test_the_count_of_the_driver_stands_beside_it() -> None:
    assert of(sampled.text()).gpus[0].counted_j == 4000.0


def test_energy_is_that_of_the_gpus_that_serve() -> None:
    both = of(sampled.text(gpus=2), expected=TWO)
    one = of(sampled.text(gpus=2), expected=Expected(tokens=2000, gpus=2, used=1))
    assert (both.serving, both.energy_j) == ((0, 1), 6000.0)
    assert (one.serving, one.energy_j) == ((0,), 4000.0)
    assert [gpu.mean_w for gpu in one.gpus] == [400.0, 200.0]


def test_the_gpus_that_serve_are_those_that_hold_the_most() -> None:
    swap = gpus(lambda _, row: [*row[:4], 50_000 if row[0] else 10, *row[5:]])
    told = of(sampled.text(gpus=2, change=swap), expected=Expected(1, gpus=2, used=1))
    assert told.serving == (1,)


def test_what_the_driver_lists_counts_before_memory() -> None:
    def listed(*found: int) -> Telemetry:
        seen: list[tuple[int, ...]] = [(), found]
        told = [json.dumps({"t": sampled.BEGAN, "u": each}) for each in seen]
        head, _, rest = sampled.text(gpus=2).partition("\n")
        return of("\n".join([head, *told, rest]), expected=Expected(2000, gpus=2, used=1))

    second, both, neither = listed(1), listed(0, 1), listed()
    assert (second.serving, second.serving_by, second.energy_j) == ((1,), "processes", 2000.0)
    assert (both.serving, both.energy_j) == ((0, 1), 6000.0)
    assert (neither.serving, neither.serving_by) == ((0,), "memory")
    assert neither.missing["processes on GPUs"].startswith("the driver lists none of the service")


def test_samples_of_before_the_driver_was_asked_say_nothing_of_it() -> None:
    told = of(sampled.text())
    assert (told.serving_by, told.missing) == ("memory", {})


def test_a_gap_forbids_an_energy_and_says_how_long_it_was() -> None:
    told = of(sampled.text(change=between(3.0, 8.0)))
    assert set(kinds(told)) == {"gap"}
    assert told.faults[0].detail == "GPU 0: 5.00 s without a sample"
    assert (told.energy_j, told.j_per_token, told.gpus[0].energy_j) == (None, None, None)
    assert told.gpus[0].peak_w == 400.0


def test_a_gap_over_an_edge_of_the_window_counts_too() -> None:
    assert "gap" in kinds(of(sampled.text(change=between(-0.95, 0.95))))
    assert kinds(of(sampled.text(change=between(-0.45, 0.45)))) == []


def test_samples_must_begin_before_the_window_and_end_after_it() -> None:
    late = Window(opened=sampled.BEGAN - 0.5, length_s=5.0, clock_error_s=0.0)
    told = of(sampled.text(), late)
    assert set(kinds(told)) == {"not-bracketed"}
    assert told.faults[0].detail == "GPU 0: the first sample came 0.50 s late"
    assert told.energy_j is None
    early = of(sampled.text(seconds=9.0))
    assert set(kinds(early)) == {"not-bracketed"}
    assert early.faults[0].detail == "GPU 0: the last sample came 2.01 s before the end"


def test_two_clocks_that_are_apart_need_samples_that_much_further_out() -> None:
    apart = WINDOW.model_copy(update={"clock_error_s": 1.2})
    assert set(kinds(of(sampled.text(), apart))) == {"not-bracketed"}


def test_a_gpu_that_was_not_there_is_missing() -> None:
    told = of(sampled.text(gpus=1), expected=TWO)
    assert [fault.detail for fault in told.faults] == ["1 of 2 GPUs were there"]
    assert told.energy_j is None


def test_a_box_whose_gpus_were_not_seen_tells_no_energy_of_its_cpu() -> None:
    told = of(sampled.text(gpus=0, packages=True), expected=TWO)
    assert [fault.detail for fault in told.faults] == ["0 of 2 GPUs were there"]
    assert told.energy_j is None


def test_a_gpu_that_falls_silent_is_missing_from_then_on() -> None:
    silent = gpus(lambda t, row: None if row[0] == 1 and t > 4 else row)
    told = of(sampled.text(gpus=2, change=silent), expected=TWO)
    assert [(fault.kind, fault.detail) for fault in told.faults] == [
        ("missing-gpu", "GPU 1 fell silent 4.0 s into the window")
    ]


def test_a_gpu_that_tells_no_power_is_missing() -> None:
    mute = gpus(lambda _, row: [row[0], None, *row[2:]])
    assert kinds(of(sampled.text(change=mute))) == ["missing-gpu"]


def test_a_driver_that_was_loaded_anew_counts_from_zero() -> None:
    reset = gpus(lambda t, row: [*row[:9], row[9] if t < 5 else 0])
    assert kinds(of(sampled.text(change=reset))) == ["counter-reset"]


def test_a_wall_clock_that_was_set_moves_the_lines_of_the_tool_alone() -> None:
    text = sampled.text(source="nvidia-smi").splitlines()
    end = {**json.loads(text[-1]), "wall": json.loads(text[-1])["wall"] + 2}
    moved = "\n".join([*text[:-1], json.dumps(end)]) + "\n"
    assert [fault.detail for fault in of(moved).faults] == ["the box's clock was set by +2.00 s"]
    assert of(moved.replace('"nvidia-smi"', '"nvml"')).faults == ()


def test_without_gpus_energy_is_that_of_the_cpu_packages() -> None:
    told = of(sampled.text(gpus=0, packages=True), expected=NONE)
    assert told.faults == ()
    assert (told.energy_of, told.energy_j, told.j_per_token) == ("packages", 500.0, 0.25)


def test_a_package_that_wraps_goes_on_counting() -> None:
    """It does so 2 s after the beginning: the sum above would else be far below zero."""
    told = of(sampled.text(gpus=0, packages=True), expected=NONE)
    assert told.curve is not None
    assert set(told.curve.package_watts) == {50.0}


def test_a_package_that_begins_from_nowhere_is_no_wrap() -> None:
    def reset(line: Line) -> Line:
        falls = line["t"] > WINDOW.opened + 5
        return {**line, "e": [line["e"][0] // 2]} if falls else line

    told = of(sampled.text(gpus=0, packages=True, change=reset), expected=NONE)
    assert kinds(told) == ["counter-reset"]
    assert told.energy_j is None


def test_packages_stand_beside_gpus_and_are_not_added_to_them() -> None:
    told = of(sampled.text(packages=True))
    assert told.host is not None
    assert (told.energy_j, told.host.energy_j) == (4000.0, 500.0)


def test_the_host_tells_what_all_and_the_service_and_the_sampler_took() -> None:
    host = of(sampled.text(gpus=0), expected=NONE).host
    assert host is not None
    assert (host.busy_cores, host.service_cores, host.sampler_cores) == (1.8, 1.5, 0.004)
    assert (host.cores, host.memory_peak, host.service_memory_peak) == (2, 2 << 30, 1 << 30)


def test_a_worker_that_ends_takes_no_time_back() -> None:
    def ended(line: Line) -> Line:
        gone = 3.0 if line["t"] > WINDOW.opened + 5 else 0.0
        return {**line, "p": [line["p"][0] - gone, line["p"][1]]}

    host = of(sampled.text(gpus=0, change=ended), expected=NONE).host
    assert host is not None
    assert host.service_cores == pytest.approx(1.5, abs=0.02)


def test_throttled_time_is_told_by_reason() -> None:
    bits = gpus(lambda t, row: [*row[:7], 0x4 if t < 5 else 0x60 if t < 6 else 0x1, *row[8:]])
    (gpu,) = of(sampled.text(change=bits)).gpus
    assert gpu.throttled == pytest.approx(0.6, abs=0.02)
    assert {reason: round(share, 1) for reason, share in gpu.throttles.items()} == {
        "power limit": 0.5,
        "heat": 0.1,
        "heat (hardware)": 0.1,
    }


def test_what_a_driver_does_not_tell_stays_open() -> None:
    mute = gpus(lambda _, row: [row[0], row[1], *[None] * 8])
    (gpu,) = of(sampled.text(change=mute)).gpus
    assert (gpu.busy, gpu.memory_mib, gpu.throttled, gpu.throttles) == (None, None, None, {})
    assert gpu.energy_j == 4000.0


def test_the_curve_of_a_window_is_its_power_over_time() -> None:
    curve = of(sampled.text(watts=sampled.ramp)).curve
    assert curve is not None
    assert (len(curve.watts), curve.step_s) == (50, 0.2)
    assert curve.watts[0] == pytest.approx(1.0)
    assert curve.watts[-1] == pytest.approx(99.0)
    assert set(curve.cores) == {1.5}


def test_a_file_that_was_cut_off_tells_what_is_whole() -> None:
    text = sampled.text()
    told = of(text[: len(text) // 2])
    assert set(kinds(told)) == {"not-bracketed"}
    assert told.gpus[0].peak_w == 400.0


def test_a_file_that_no_sampler_wrote_is_refused() -> None:
    first, _, rest = sampled.text().partition("\n")
    for wrong in ('{"t": "soon"}', '{"t": 1, "z": 2}', "[]", '{"t": NaN}', "none"):
        with pytest.raises(ValueError, match="a line that no sampler writes"):
            of(f"{first}\n{wrong}\n{rest}")


@pytest.mark.parametrize("text", ["", '{"t": 1'])
def test_an_empty_file_is_told_as_such(text: str) -> None:
    assert of(text) == absent("the file of samples is empty")
    assert of(text).energy_of is None


def test_a_window_between_two_samples_is_told_by_both() -> None:
    short = Window(opened=WINDOW.opened + 0.02, length_s=0.05, clock_error_s=0.0)
    told = of(sampled.text(), short)
    assert (told.energy_j, told.gpus[0].busy, told.gpus[0].memory_mib) == (20.0, 1.0, 80_000)


def test_a_window_of_no_length_has_no_power() -> None:
    told = of(sampled.text(), WINDOW.model_copy(update={"length_s": 0.0}))
    assert (told.energy_j, told.gpus[0].mean_w, told.curve) == (None, None, None)

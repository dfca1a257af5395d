"""The sampler as the process it is, on this machine; only powercap is made up."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from types import ModuleType

import pytest

from ddops.errors import HostError
from ddops.host import box_gpus, box_sample
from tests.ddops.flows.bench_machine import eventually
from tests.ddops.host.sampling import free, lines_of, start, stop


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


def test_the_service_is_all_that_its_first_process_started(file: Path, service: int) -> None:
    start(file, pid=service)
    assert stop(file)[1:-1][0]["p"][1] > 50 << 20


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

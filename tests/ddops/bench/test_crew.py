"""The client as several processes."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace

import pytest

from ddops.bench.crew import PER_PROCESS, processes
from ddops.bench.measure import measure
from ddops.errors import BenchError
from tests.ddops.bench.mock_engine import Plan
from tests.ddops.bench.serving import serving
from tests.ddops.bench.test_measure import work


@pytest.mark.parametrize(
    ("cores", "concurrency", "count"),
    [
        (2, 1, 1),
        (2, 4 * PER_PROCESS, 1),
        (16, PER_PROCESS, 1),
        (16, PER_PROCESS + 1, 2),
        (16, 4 * PER_PROCESS, 4),
        (16, 100 * PER_PROCESS, 8),
        (1, 100 * PER_PROCESS, 1),
    ],
)
def test_there_are_as_few_as_keep_up_and_half_the_cores_stay_free(
    monkeypatch: pytest.MonkeyPatch, cores: int, concurrency: int, count: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert processes(concurrency) == count


def test_several_processes_share_one_row_of_questions() -> None:
    """Five workers in two processes: whoever is free takes the next."""
    told = []
    with serving(Plan(ttft=0.01, gap=0.002, tokens=(1, 2))) as target:
        what = replace(work(5, 40), processes=2)
        measured = measure(target, what, lambda: told.append(1))
    assert sorted(t.prompt for t in measured.window.traces) == sorted(f"p{n}" for n in range(40))
    assert len(told) == 45
    sent = [trace.sent for trace in measured.window.traces]
    assert sent == sorted(sent)
    assert sent[0] == 0.0


def test_a_process_of_the_client_that_dies_ends_the_cell_with_an_error() -> None:
    def die() -> None:
        for child in multiprocessing.active_children():
            child.kill()

    what, told = replace(work(4, 4000), processes=2), "a process of the load client died"
    with serving(Plan(ttft=0.01, gap=0.002)) as target, pytest.raises(BenchError, match=told):
        measure(target, what, die)
    assert not multiprocessing.active_children()

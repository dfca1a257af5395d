"""Cores in use, from two readings of `/proc/stat`."""

from __future__ import annotations

import pytest

from ddops.facts.busy import Ticks, cores_between, parse

STAT = """\
cpu  1000 20 300 8000 100 5 10 15 400 0
cpu0 500 10 150 4000 50 2 5 7 200 0
cpu1 500 10 150 4000 50 3 5 8 200 0
intr 12345 0 0
"""


def test_idle_counts_waiting_for_disks_and_guests_are_counted_once() -> None:
    assert parse(STAT) == Ticks(cores=2, idle=8100, total=9450)


@pytest.mark.parametrize(("idle", "cores"), [(200, 0.0), (100, 1.0), (0, 2.0)])
def test_the_share_that_was_not_idle_times_the_cores(idle: int, cores: float) -> None:
    before = Ticks(2, 1000, 5000)
    assert cores_between(before, Ticks(2, 1000 + idle, 5200)) == cores


def test_a_box_that_does_not_say_is_not_guessed() -> None:
    assert parse("") is None
    assert cores_between(None, Ticks(2, 1, 1)) is None
    assert cores_between(Ticks(2, 1, 1), Ticks(2, 1, 1)) is None

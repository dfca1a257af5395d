"""Intervals against scipy, and how often they hold what they should."""

from __future__ import annotations

import math
import random

import pytest
import scipy

from ddops.analysis.interval import effect, student


@pytest.mark.parametrize("freedom", [*range(1, 40), 100, 1000])
def test_students_t_is_that_of_scipy(freedom: int) -> None:
    assert student(freedom) == pytest.approx(scipy.stats.t.ppf(0.975, freedom), rel=2e-4)


def test_the_interval_is_that_of_a_paired_t_test_on_logarithms() -> None:
    ratios = [1.4, 1.6, 1.5, 1.9]
    logs = [math.log(ratio) for ratio in ratios]
    theirs = scipy.stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    found = effect(ratios)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(
        (math.exp(theirs.low), math.exp(theirs.high)), rel=1e-3
    )
    assert found.ratio == pytest.approx(scipy.stats.gmean(ratios))
    assert found.size == pytest.approx(scipy.stats.tmean(logs) / scipy.stats.tstd(logs))
    assert found.settled


def test_halving_is_as_far_as_doubling() -> None:
    up, down = effect([2.0, 2.2]), effect([1 / 2.0, 1 / 2.2])
    assert up is not None
    assert down is not None
    assert (down.ratio, down.low) == pytest.approx((1 / up.ratio, 1 / up.high))


def test_one_pair_has_no_interval() -> None:
    assert effect([1.5]) is None
    assert effect([]) is None


def test_pairs_that_agree_exactly_have_no_effect_size() -> None:
    found = effect([1.0, 1.0, 1.0])
    assert found is not None
    assert (found.low, found.high, found.size, found.settled) == (1.0, 1.0, None, False)


def test_nineteen_of_twenty_intervals_hold_the_truth() -> None:
    dice = random.Random(5)
    truth, runs, held = math.log(1.3), 2000, 0
    for _ in range(runs):
        found = effect([math.exp(dice.gauss(truth, 0.2)) for _ in range(3)])
        assert found is not None
        held += found.low <= 1.3 <= found.high
    assert held / runs == pytest.approx(0.95, abs=0.015)

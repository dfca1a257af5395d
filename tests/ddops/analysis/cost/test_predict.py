"""A prediction is as wide as the fit was wrong, and never below the bytes."""

from __future__ import annotations

import random

import pytest

from ddops.analysis.cost.catalogue import processor
from ddops.analysis.cost.fit import Step, Timed
from ddops.analysis.cost.observe import Observed
from ddops.analysis.cost.predict import Wish, fitted
from ddops.analysis.cost.range import Range
from ddops.errors import UsageError
from ddops.spec.cost import Processor

H200 = processor("h200")


def observed(noise: float = 0.0, on: Processor | None = H200) -> Observed:
    dice, timed, concurrency = random.Random(3), [], []
    for budget in (0, 8, 32):
        for c in (1, 4, 16):
            nodes = c * (budget + 1)
            seconds = 2e-3 + 5e-4 * (budget > 0) + 3e-5 * c + 1e-5 * nodes
            seconds *= dice.uniform(1 - noise, 1 + noise)
            timed.append(
                Timed(Step(f"b{budget}.c{c}", budget > 0, c, nodes, bytes_s=1e-3), seconds)
            )
            concurrency.append(c)
    return Observed(tuple(timed), tuple(concurrency), (), on, {8: 3.0}, "made-up")


def test_an_exact_fit_predicts_a_budget_that_was_not_measured() -> None:
    (one,) = fitted(observed(), [Wish(budget=16, concurrency=4)]).predictions
    want = 2e-3 + 5e-4 + 3e-5 * 4 + 1e-5 * 68
    assert (one.step_s.low, one.step_s.high) == pytest.approx((want, want))
    assert one.beyond == ()


def test_the_range_is_as_wide_as_the_worst_held_out_step() -> None:
    found = fitted(observed(noise=0.1), [Wish(budget=16, concurrency=4)])
    worst = max(abs(one.error) for one in found.by_cell)
    (one,) = found.predictions
    assert worst > 0.01
    assert one.step_s.high / one.step_s.low == pytest.approx((1 + worst) / (1 - worst))
    assert f"{worst:.0%}" in one.why


def test_accept_is_the_measured_one_unless_given() -> None:
    wishes = [Wish(8, 1), Wish(8, 1, Range(4, 5)), Wish(9, 1), Wish(0, 1)]
    accepts = [one.accept for one in fitted(observed(), wishes).predictions]
    assert accepts == [Range(3, 3), Range(4, 5), None, Range(1, 1)]


def test_on_another_gpu_bytes_change_and_the_rest_stays_or_changes() -> None:
    slow = processor("pro6000")
    here, there = fitted(observed(), [Wish(8, 1), Wish(8, 1, on=slow)]).predictions
    ratio = H200.tb_s / slow.tb_s
    rest = here.step_s.low - 1e-3
    assert there.step_s.low == pytest.approx(1e-3 * ratio + rest)
    assert there.step_s.high == pytest.approx((1e-3 + rest) * ratio)


def test_another_gpu_is_refused_where_the_measured_one_is_not_known() -> None:
    with pytest.raises(UsageError, match="not in the cost model") as told:
        fitted(observed(on=None), [Wish(8, 1, on=H200)])
    assert "--gpu" in (told.value.hint or "")


def test_a_concurrency_is_also_held_out_whole() -> None:
    found = fitted(observed(), [])
    assert {one.name for one in found.by_concurrency} == {one.name for one in found.by_cell}
    assert any(one.beyond for one in found.by_concurrency)

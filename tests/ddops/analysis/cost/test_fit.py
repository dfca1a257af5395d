"""Costs that were planted are found again, and a fit knows where it stops knowing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddops.analysis.cost.fit import Fit, Step, Timed, fit, held_out
from ddops.errors import UsageError

PLANTED = {"a step": 1e-3, "a draft": 4e-4, "a request": 2e-5, "a node": 9e-6}


def steps() -> list[Step]:
    return [
        Step(f"b{budget}.c{c}", budget > 0, c, c * (budget + 1), bytes_s=5e-4)
        for budget in (0, 4, 16, 64)
        for c in (1, 4, 16)
    ]


def timed(costs: dict[str, float], noise: float = 0.0) -> list[Timed]:
    dice = random.Random(7)
    truth = Fit(costs, {})
    return [Timed(s, truth.seconds(s) * dice.uniform(1 - noise, 1 + noise)) for s in steps()]


def test_planted_costs_are_found_again() -> None:
    assert fit(timed(PLANTED)).costs == pytest.approx(PLANTED)


@settings(deadline=None, max_examples=30)
@given(st.tuples(*[st.floats(0, 1e-3)] * 3))
def test_no_cost_is_ever_negative_and_no_step_below_its_bytes(costs: tuple[float, ...]) -> None:
    planted = {"a step": 1e-4} | dict(zip(("a draft", "a request", "a node"), costs, strict=True))
    found = fit(timed(planted, noise=0.3))
    assert all(cost >= 0 for cost in found.costs.values())
    assert all(found.seconds(step) >= step.bytes_s for step in steps())


def test_the_parts_of_a_step_add_up_to_it() -> None:
    found, step = fit(timed(PLANTED)), steps()[-1]
    assert sum(found.parts(step).values()) == pytest.approx(found.seconds(step))
    assert found.parts(step)["bytes"] == 5e-4


def test_what_does_not_vary_gets_no_cost_of_its_own() -> None:
    alone = [one for one in timed(PLANTED) if one.step.requests == 1]
    assert "a request" not in fit(alone).costs
    assert "a prefill between" not in fit(alone).costs


def test_a_step_beyond_what_was_measured_is_said_to_be() -> None:
    found = fit(timed(PLANTED))
    assert found.beyond(Step("inside", True, 16, 200)) == ()
    assert found.beyond(Step("more", True, 64, 64 * 65)) == ("a request", "a node")
    assert found.beyond(Step("other", True, 4, 68, prefills=0.1)) == ("a prefill between",)


def test_a_held_out_step_was_not_seen() -> None:
    spoiled = timed(PLANTED)
    spoiled[5] = Timed(spoiled[5].step, spoiled[5].seconds * 2)
    held = held_out(spoiled, [[spoiled[5]]])
    assert held[0].error == pytest.approx(-0.5)


def test_three_steps_are_too_few() -> None:
    with pytest.raises(UsageError, match="3 measured steps") as told:
        fit(timed(PLANTED)[:3])
    assert "ddops bench" in (told.value.hint or "")

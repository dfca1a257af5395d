"""The recipe: what it refuses, and what makes two of them different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddtree.train.recipe import Recipe, differences, from_values
from ddtree.train.schedule import rate


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "model is missing"),
        ({"model": "m", "stpes": 3}, "stpes is no part of a recipe; known: model, mask_token"),
        ({"model": "m", "steps": "3"}, "steps must be int, found '3'"),
        ({"model": "m", "steps": True}, "steps must be int, found True"),
        ({"model": "m", "rounds": 0}, "rounds must be positive, is 0"),
        ({"model": "m", "soft": 1.5}, "soft must be between 0 and 1"),
        ({"model": "m", "chat_share": 0.7, "code_share": 0.6}, "together are more than 1"),
        ({"model": "m", "block_size": 1}, "block_size 1 leaves nothing to draft"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_values(values)


def test_a_whole_number_is_good_enough_for_a_fraction() -> None:
    assert from_values({"model": "m", "soft": 1}).soft == 1


def test_recipes_differ_in_what_they_do_not_in_where_the_model_lies() -> None:
    before = Recipe("a.gguf")
    assert differences(replace(before, model="b.gguf"), before) == []
    assert differences(replace(before, steps=5), before) == ["steps (5, was 10000)"]


def test_the_rate_rises_falls_and_rises_again_after_a_checkpoint() -> None:
    recipe = Recipe("m", rounds=2, steps=1000, warm_up=100, settle=20, rate=1.0)
    rates = [rate(recipe, step, step % 500) for step in range(2000)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[99] == pytest.approx(1.0, abs=0.01)
    assert rates[499] > rates[999] > rates[1999]
    assert rates[500] == pytest.approx(rates[520] / 20, rel=0.05)
    assert rates[1999] == pytest.approx(0.03, abs=1e-3)

"""The search, replayed on engines that follow a script: the field record's, and others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddops.analysis.search import every, findings, next_variant
from ddops.spec.matrix import Variant
from ddops.spec.record import FailureKind
from ddops.spec.search import Axes, Findings, Tried

Engine = Callable[[Variant], float | FailureKind]

RECORD = Axes(budgets=(8, 12, 16, 32), graphs=("auto", "off"), nvls=("off", "on"))


def record(variant: Variant) -> float | FailureKind:
    """SGLang on 8 x B300 as the record's table has it, tok/s at C=1.

    The record has no number for eager budgets 12 and 32; they are put around its eager 16.
    """
    if variant.mode == "ar":
        return 133.0
    assert variant.budget
    if variant.graphs == "off":
        return {8: 75.0, 12: 95.0, 16: 111.0, 32: 90.0}[variant.budget]
    if variant.budget > 8:
        return "garbage" if variant.budget == 32 else "illegal-access"
    return 303.0 if variant.nvls == "on" else 285.0


def searched(axes: Axes, engine: Engine) -> tuple[list[Tried], Findings]:
    tried: list[Tried] = []
    while (wanted := next_variant(axes, tried)) is not None:
        said = engine(wanted)
        fits = {"tok_s": said} if isinstance(said, float) else {"failure": said}
        tried.append(Tried(variant=wanted, **fits))
        assert len(tried) <= len(every(axes)), "a search ends"
    return tried, findings(axes, tried)


def names(tried: list[Tried]) -> list[str]:
    return [one.variant.name for one in tried]


def test_the_record_is_found_again_in_at_most_twelve_starts() -> None:
    tried, found = searched(RECORD, record)
    assert len(tried) <= 12
    assert found.best
    assert (found.best.variant.name, found.best.tok_s) == ("ddtree-b8-nvls", 303.0)
    assert tried[-1] == found.best  # and it is what serves when the search ends
    (wall,) = found.walls
    assert (wall.works.budget, wall.fails.budget) == (8, 12)
    assert (wall.failure, wall.cause) == ("illegal-access", "graphs")
    failures = {one.variant.name: one.failure for one in found.failed}
    assert failures == {
        "ddtree-b12": "illegal-access",
        "ddtree-b16": "illegal-access",
        "ddtree-b32": "garbage",
    }
    eager = next(one for one in tried if one.variant.name == "ddtree-b16-eager")
    assert eager.tok_s == 111.0


def test_the_order_is_baseline_foothold_wall_causes_and_then_speed() -> None:
    tried, _ = searched(RECORD, record)
    assert names(tried) == [
        "ar",
        "ddtree-b8",
        "ddtree-b32",
        "ddtree-b12",
        "ddtree-b16",
        "ddtree-b32-eager",
        "ddtree-b12-eager",
        "ddtree-b16-eager",
        "ddtree-b8-nvls",
    ]


def test_an_engine_without_a_wall_is_climbed_to_its_best_budget() -> None:
    speeds = {8: 200.0, 12: 240.0, 16: 250.0, 32: 220.0}
    _, found = searched(
        Axes(budgets=(8, 12, 16, 32)),
        lambda variant: speeds[variant.budget] if variant.budget else 100.0,
    )
    assert found.walls == ()
    assert found.best
    assert found.best.variant.budget == 16
    assert found.baseline
    assert found.baseline.tok_s == 100.0


@pytest.mark.parametrize("wall", range(1, 16))
def test_every_wall_is_found_by_bisection(wall: int) -> None:
    """Of 16 budgets no more than 4 are tried between the ends."""
    budgets = tuple(range(1, 17))

    def engine(variant: Variant) -> float | FailureKind:
        return "illegal-access" if (variant.budget or 0) > wall else 100.0

    tried, found = searched(Axes(budgets=budgets), engine)
    (there,) = found.walls
    assert (there.works.budget, there.fails.budget, there.cause) == (wall, wall + 1, None)
    ends_and_neighbours = 1 + 2 + 2
    assert len(tried) <= ends_and_neighbours + 4


def test_where_the_smallest_budget_fails_one_thing_is_changed_to_get_a_foothold() -> None:
    def engine(variant: Variant) -> float | FailureKind:
        return "jit" if variant.mode == "ddtree" and variant.graphs == "auto" else 50.0

    tried, found = searched(RECORD, engine)
    assert names(tried)[:4] == ["ar", "ddtree-b8", "ddtree-b8-eager", "ddtree-b32-eager"]
    assert found.best
    assert found.best.variant.graphs == "off"


def test_where_nothing_works_the_search_ends_and_has_no_best() -> None:
    tried, found = searched(RECORD, lambda variant: "nccl")
    assert found.best is None
    assert names(tried) == ["ar", "ddtree-b8", "ddtree-b8-eager"]


def test_parallelism_is_changed_at_the_best_only() -> None:
    axes = Axes(budgets=(8, 16), parallel=("tp", "ep"))

    def engine(variant: Variant) -> float | FailureKind:
        return 90.0 if variant.parallel == "ep" else 60.0

    tried, found = searched(axes, engine)
    assert found.best
    assert found.best.variant.parallel == "ep"
    assert len([name for name in names(tried) if name.endswith("ep")]) <= 2


def test_a_search_goes_on_from_what_was_tried_before() -> None:
    whole, _ = searched(RECORD, record)
    for count in range(len(whole)):
        assert next_variant(RECORD, whole[:count]) == whole[count].variant


def test_budgets_are_put_in_order() -> None:
    assert Axes(budgets=(32, 8, 8)).budgets == (8, 32)

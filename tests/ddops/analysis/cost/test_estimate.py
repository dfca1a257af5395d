"""A step taken apart: parts add up, anchors come out as they were, ranges hold what was seen."""

from __future__ import annotations

import dataclasses

import pytest

from ddops.analysis.cost.catalogue import field_record, processor, target
from ddops.analysis.cost.estimate import Case, Estimate, estimate
from ddops.analysis.cost.range import Range
from ddops.errors import UsageError

KIMI, RECORD = target("kimi-k2.6"), field_record()
ACCEPT = Range(4.36, 4.36)


def made(gpu: str = "b300", budget: int = 8, concurrency: int = 1) -> Estimate:
    case = Case(KIMI, processor(gpu), 8, budget, concurrency)
    return estimate(case, RECORD, ACCEPT)


def step_ms(one: Estimate) -> Range:
    assert one.step_s is not None
    return one.step_s * 1e3


@pytest.mark.parametrize("cell", [c for c in RECORD.cells if c.anchors], ids=str)
def test_a_cell_that_was_fitted_to_comes_out_as_it_was(cell: object) -> None:
    measured = next(c for c in RECORD.cells if c is cell)
    one = made(measured.box, measured.budget, measured.concurrency)
    want = measured.step_s * 1e3
    assert (step_ms(one).low, step_ms(one).high) == pytest.approx((want, want))


def test_the_parts_add_up_to_the_step() -> None:
    one = made()
    names = [part.name for part in one.parts]
    assert names == [
        "dense weights",
        "experts",
        "arithmetic",
        "cache",
        "draft",
        "all-reduce",
        "dispatch",
    ]
    middle = sum((part.seconds.low + part.seconds.high) / 2 for part in one.parts) * 1e3
    assert middle == pytest.approx((step_ms(one).low + step_ms(one).high) / 2)


def test_the_record_s_own_step_at_budget_32_lies_in_the_range() -> None:
    assert step_ms(made(budget=32)).low < 20.4 < step_ms(made(budget=32)).high


def test_an_all_reduce_over_pcie_costs_several_times_that_over_nvlink() -> None:
    def reduce(gpu: str) -> Range:
        return next(p.seconds for p in made(gpu).parts if p.name == "all-reduce")

    assert reduce("pro6000").low > reduce("b300").high


def test_arithmetic_shows_only_where_it_outlasts_the_weights() -> None:
    def arithmetic(concurrency: int) -> float:
        case = Case(target("qwen3-8b"), processor("h200"), 1, 16, concurrency, context=100)
        return next(
            p.seconds.low for p in estimate(case, None, None).parts if p.name == "arithmetic"
        )

    assert arithmetic(1) == 0
    work_s, weights_s = 2 * 64 * 17 * 7.57e9 / 989e12, 2 * 7.57e9 / 4.8e12
    assert arithmetic(64) == pytest.approx(work_s - weights_s, rel=0.01)


def test_less_bandwidth_is_never_faster() -> None:
    fast, slow = step_ms(made("b300")), step_ms(made("h200"))
    assert fast.low < slow.low and fast.high < slow.high
    assert slow.high > slow.low, "how dispatch changes is not known"


def test_without_a_measured_cell_there_is_a_floor_and_no_speed() -> None:
    dense = Case(target("qwen3-8b"), processor("h200"), 1, 0)
    one = estimate(dense, RECORD, None)
    assert (one.step_s, one.tok_s) == (None, None)
    assert one.floor_s * 1e3 == pytest.approx(3.2, abs=0.1)
    assert one.at_most_tok_s == pytest.approx(1 / one.floor_s)


def test_one_cell_does_not_tell_what_more_requests_cost() -> None:
    assert made("pro6000").step_s is not None
    assert made("pro6000", concurrency=4).step_s is None


def test_what_a_better_engine_saves_comes_off_the_step() -> None:
    case = made(budget=32).case
    before, after = (estimate(case, RECORD, ACCEPT, saves_s=saves) for saves in (0.0, 0.0045))
    assert step_ms(before).low - step_ms(after).low == pytest.approx(4.5)
    assert any("a wish" in said for said in after.assumptions)


def test_no_more_can_be_saved_than_dispatch() -> None:
    with pytest.raises(UsageError, match=r"more than the 11\.2 ms of dispatch"):
        estimate(made().case, RECORD, ACCEPT, saves_s=0.012)


def test_what_no_gpu_can_hold_is_refused() -> None:
    """554 GiB of weights: 72 GiB and the drafter a GPU of eight, far too much for two."""
    with pytest.raises(UsageError, match="on 2 x b300 at C=1 needs") as told:
        estimate(dataclasses.replace(made().case, gpus=2), RECORD, ACCEPT)
    assert "--gpus" in (told.value.hint or "")


def test_other_gpu_counts_are_not_calibrated_by_the_record() -> None:
    case = dataclasses.replace(made().case, gpus=4)
    assert estimate(case, RECORD, ACCEPT).step_s is None


def test_accept_that_nobody_knows_gives_a_step_and_no_speed() -> None:
    one = estimate(made().case, RECORD, None)
    assert one.step_s is not None
    assert (one.tok_s, one.at_most_tok_s) == (None, None)


def test_every_guess_of_the_data_is_printed() -> None:
    said = " ".join(made("h200", budget=16).assumptions)
    for word in ("uniform", "guess", "bandwidth", "by bandwidth", "the record guesses"):
        assert word in said


def test_a_drafter_of_unknown_size_is_left_out_and_said_to_be() -> None:
    case = Case(target("qwen3-8b"), processor("h200"), 1, 16)
    one = estimate(case, RECORD, ACCEPT)
    assert "draft" not in [part.name for part in one.parts]
    assert any("drafter" in said for said in one.assumptions)

"""A matrix becomes cells in the right order, and variants become deployments."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ddops.bench import expand
from ddops.errors import SpecError, UsageError
from ddops.spec.deployment import Decoding, Deployment, Model, Weights
from ddops.spec.matrix import CodingAsked, Load, Matrix, Pace, Variant

B4 = Variant(name="ddtree-b4", mode="ddtree", budget=4)
AR = Variant(name="ar", mode="ar")
CHAIN = Variant(name="chain", mode="chain")


def matrix(**changes: Any) -> Matrix:
    load = Load(requests=10, warmup=2, max_tokens=50)
    whole = {"name": "m", "variants": (B4, AR, CHAIN), "concurrency": (1, 4), "load": load}
    return Matrix.model_validate({**whole, **changes})


def ids(of: Matrix) -> list[str]:
    return [cell.id for cell in expand.cells(of)]


def test_ar_comes_first_and_cells_of_a_variant_stay_together() -> None:
    assert ids(matrix()) == [
        f"{name}.c{concurrency}.r1"
        for name in ("ar", "ddtree-b4", "chain")
        for concurrency in (1, 4)
    ]


def test_repeats_run_the_whole_ladder_again() -> None:
    alone = matrix(variants=(AR,), repeats=2)
    assert ids(alone) == ["ar.c1.r1", "ar.c4.r1", "ar.c1.r2", "ar.c4.r2"]


def test_a_random_order_is_the_same_every_time_and_loses_no_cell() -> None:
    ordered, shuffled = matrix(repeats=4), matrix(repeats=4, order="randomised")
    assert ids(shuffled) == ids(shuffled)
    assert ids(shuffled) != ids(ordered)
    assert sorted(ids(shuffled)) == sorted(ids(ordered))
    names = [cell.variant.name for cell in expand.cells(shuffled)]
    assert sum(a != b for a, b in pairwise(names)) == 2
    assert names[0] == "ar"


def test_a_chosen_cell_brings_the_cell_it_is_compared_with() -> None:
    found = expand.chosen(expand.cells(matrix()), ["ddtree-*.c4.*"])
    assert [cell.id for cell in found] == ["ar.c4.r1", "ddtree-b4.c4.r1"]


def test_no_pattern_means_all_and_a_wrong_one_lists_the_cells() -> None:
    cells = expand.cells(matrix())
    assert expand.chosen(cells, []) == cells
    with pytest.raises(UsageError, match="no cell fits `ddtree-b5") as told:
        expand.chosen(cells, ["ddtree-b5.*"])
    assert "ddtree-b4.c1.r1" in str(told.value.hint)


def deployment(decoding: Decoding) -> Deployment:
    model = Model(name="m", weights=Weights(source="file:m.gguf"))
    return Deployment(engine="ddtree", model=model, decoding=decoding)


def test_a_variant_changes_the_decoding_and_nothing_else() -> None:
    base = deployment(Decoding(mode="ddtree", budget=16, drafter="prompt-lookup"))
    small = expand.configured(base, B4)
    assert small.decoding == Decoding(mode="ddtree", budget=4, drafter="prompt-lookup")
    assert small.model_copy(update={"decoding": base.decoding}) == base
    assert expand.configured(base, CHAIN).decoding.budget == 16


def test_speculation_without_a_drafter_is_refused_before_anything_runs() -> None:
    with pytest.raises(SpecError, match="variant `chain` does not fit") as told:
        expand.configured(deployment(Decoding(mode="ar")), CHAIN)
    assert "drafter" in str(told.value.hint)


def test_the_estimate_grows_with_cells_tokens_and_restarts() -> None:
    of = matrix()
    cells = expand.cells(of)
    one = expand.RESTART_S + 12 * 50 / expand.STREAM_TOK_S
    assert expand.estimate(of, cells[:1], {}) == expand.Estimate(one, known=0, cells=1)
    assert expand.estimate(of, cells, {}).seconds == pytest.approx(30 + 3600 / 33)


def test_the_estimate_goes_by_what_the_box_did_before() -> None:
    of = matrix(cooldown_s=5)
    cells = expand.cells(of)[:2]
    told = expand.estimate(of, cells, {(AR, Pace(concurrency=1)): 6000.0})
    assert told.known == 1
    assert told.seconds == pytest.approx(10 + 600 / 6000 + 600 / 33 + 5)


def test_the_estimate_counts_what_each_stream_asks() -> None:
    load = matrix().load
    of = matrix(load=load.model_copy(update={"requests_a_stream": load.requests}), concurrency=(3,))
    seconds = expand.estimate(of, expand.cells(of)[:1], {}).seconds
    alike = load.requests * 3 + load.warmup
    assert seconds == pytest.approx(expand.RESTART_S + alike * load.max_tokens / 33)


def test_coding_problems_take_their_time_too() -> None:
    of = matrix(coding=CodingAsked(max_tokens=100))
    cells = expand.cells(of)[:1]
    assert expand.estimate(of, cells, {}, problems=5).seconds == pytest.approx(10 + 1100 / 33)


def test_the_first_cell_comes_again_at_the_end() -> None:
    found = ids(matrix(again=True, order="randomised", repeats=2))
    assert found[-1] == f"{found[0]}.again"
    assert len(found) == 13
    assert ids(matrix(variants=(AR,), concurrency=(1,), again=True)) == ["ar.c1.r1"]


def test_what_is_left_out_is_not_measured() -> None:
    found = ids(matrix(left_out=("ar.c4", "chain.c1")))
    assert found == ["ar.c1.r1", "ddtree-b4.c1.r1", "ddtree-b4.c4.r1", "chain.c4.r1"]


def test_another_seed_is_another_random_order() -> None:
    orders = {tuple(ids(matrix(repeats=4, order="randomised", order_seed=n))) for n in range(4)}
    assert len(orders) == 4

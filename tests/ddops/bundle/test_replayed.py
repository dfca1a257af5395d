"""When a replay bears out what a bundle states, and when not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddops.analysis.pairs import Comparison, Evidence, compare
from ddops.bench.metrics import tpot_s, ttft_s
from ddops.bundle.replayed import alike, linked, same_answers
from ddops.spec.bundle import BundleInfo
from ddops.spec.matrix import Matrix
from ddops.spec.record import Record
from ddops.spec.run import BasedOn
from tests.ddops import records

Change = Callable[[Record], Record]
REPEATED = records.matrix(repeats=3)
ONCE = records.matrix()


def as_it_was(record: Record) -> Record:
    return record


def other_answer(record: Record) -> Record:
    first, *rest = record.traces
    changed = first.model_copy(update={"text_sha256": records.sha256("something else")})
    return record.model_copy(update={"traces": (changed, *rest)})


def only(cell: str, change: Change) -> Change:
    return lambda record: change(record) if record.cell.id == cell else record


def measured(of: Matrix, change: Change = as_it_was, *, troubled: bool = False) -> Evidence:
    made = [change(record) for record in records.records(of, troubled=troubled)]
    return Evidence(records.run(of), {record.cell.id: record for record in made}, {})


def seen(one: Evidence, other: Evidence) -> Comparison:
    return compare(one, other, {"TTFT s": ttft_s, "TPOT s": tpot_s})


def outside(one: Evidence, other: Evidence, tolerance: float = 0.1) -> list[str]:
    found = list(alike(one.records, other.records, seen(one, other), tolerance))
    assert {finding.level for finding in found} <= {"L5"}
    return [str(finding) for finding in found]


@pytest.mark.parametrize("of", [REPEATED, ONCE])
def test_the_same_numbers_are_within_bounds(of: Matrix) -> None:
    assert outside(measured(of), measured(of)) == []


def test_an_interval_that_reaches_the_tolerance_is_within_bounds() -> None:
    assert outside(measured(REPEATED), measured(REPEATED, records.with_speed(0.7, 0.9, 1.1))) == []


@pytest.mark.parametrize("factors", [(0.70, 0.72, 0.71), (1.40, 1.41, 1.42)])
def test_an_interval_beyond_it_is_outside_whichever_way(factors: tuple[float, ...]) -> None:
    found = outside(measured(REPEATED), measured(REPEATED, records.with_speed(*factors)))
    assert len(found) == 8
    assert found[0].startswith("data/records/ar.c1.*.json: tok/s was ")
    assert f"{sum(factors) / 3:.2f} times (" in found[0]
    assert "over 3 repeats, 0.91 to 1.10 is asked for" in found[0]


def test_one_repeat_has_no_interval_so_the_ratio_itself_counts() -> None:
    assert outside(measured(ONCE), measured(ONCE, records.with_speed(0.93))) == []
    found = outside(measured(ONCE), measured(ONCE, only("ar.c1.r1", records.with_speed(0.5))))
    assert [line.split(" was ")[0] for line in found] == ["data/records/ar.c1.*.json: tok/s"]
    assert outside(measured(ONCE), measured(ONCE, records.with_speed(0.5)), tolerance=1.5) == []


def test_a_cell_that_fails_again_as_it_did_is_borne_out_and_another_verdict_is_not() -> None:
    troubled, sound = measured(ONCE, troubled=True), measured(ONCE)
    assert outside(troubled, troubled) == []
    assert outside(troubled, sound) == [
        "data/records/ddtree-b8.c4.r1.json: was invalid: garbage, and is now ok",
        "data/records/ddtree-b16.c4.r1.json: was failed: illegal-access, and is now ok",
    ]


def test_what_was_not_repeated_is_not_judged_unless_that_is_all() -> None:
    one = measured(ONCE)
    part = Evidence(one.run, {"ar.c1.r1": one.records["ar.c1.r1"]}, {})
    assert outside(one, part) == []
    nothing = outside(one, Evidence(one.run, {}, {}))
    assert nothing == ["data/records: not one cell of the first bundle was measured again"]


def test_another_load_is_no_replay() -> None:
    one = measured(ONCE)
    load = ONCE.load.model_copy(update={"max_tokens": 7})
    of = ONCE.model_copy(update={"load": load})
    found = outside(one, measured(of))
    assert "data/run.json: another load: `max_tokens` 48 and 7" in found


def test_equal_answers_are_the_same_and_each_other_one_is_named() -> None:
    one = measured(ONCE, troubled=True)
    assert list(same_answers(one.records, one.records)) == []
    (found,) = same_answers(one.records, measured(ONCE, only("ar.c1.r1", other_answer)).records)
    assert str(found) == "data/records/ar.c1.r1.json: 1 of 6 answers are other ones: coding-00"
    assert found.level == "L6"


def test_sampled_answers_prove_nothing() -> None:
    warm = ONCE.load.model_copy(update={"temperature": 0.8})
    sampled = measured(ONCE, lambda record: record.model_copy(update={"load": warm}))
    found = list(same_answers(sampled.records, sampled.records))
    assert len(found) == 8
    assert "only greedy answers must be the same" in found[0].reason


def info(based_on: BasedOn | None) -> BundleInfo:
    run = records.run(records.matrix())
    return records.told(run.model_copy(update={"based_on": based_on}))


def test_a_replay_says_of_which_bundle_by_its_hash() -> None:
    based = BasedOn(name="first", sha256="a" * 64, drift=())
    assert list(linked(info(based), "first", "a" * 64)) == []
    (other,) = linked(info(based), "first", "b" * 64)
    assert "no replay of first, sha256 bbbbbbbbbbbb, but of first, sha256 aaaaaaaaaaaa" in str(
        other
    )
    (nothing,) = linked(info(None), "first", "a" * 64)
    assert str(nothing) == "data/bundle.json: is no replay of first: it is based on nothing"

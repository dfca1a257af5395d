"""What follows from a run's numbers, and that it follows only where the numbers say so."""

from __future__ import annotations

import pytest

from ddops.analysis.cost.breakdown import Apart, Breakdown
from ddops.analysis.lessons import method, roadmap
from ddops.analysis.repeats import groups
from ddops.spec.matrix import Matrix
from ddops.spec.record import Record
from tests.ddops import records

OF = records.matrix(repeats=3)


def texts(made: list[Record], *, of: Matrix = OF, apart: Breakdown | None = None) -> list[str]:
    return [one.text for one in roadmap(of, groups(of, made), apart, None)]


def changed(name: str, pace: int, **metrics: object) -> list[Record]:
    """All records, those of one variant at one C with other numbers."""
    made = []
    for record in records.records(OF):
        assert record.metrics is not None
        if (record.cell.variant.name, record.cell.concurrency) == (name, pace):
            record = record.model_copy(
                update={"metrics": record.metrics.model_copy(update=metrics)}
            )
        made.append(record)
    return made


def test_the_method_is_told_by_the_variant_that_commits_most() -> None:
    first, second, *steps = (one.text for one in method(groups(OF, records.records(OF))))
    assert first.startswith("C=1: ddtree-b16 commits 3.")
    assert second.startswith("of its steps ")
    assert [text.partition(" accept")[0] for text in steps] == [
        "C=1: from budget 4 to 8",
        "C=1: from budget 8 to 16",
    ]
    assert "a step by 4" in steps[1]
    assert steps[1].endswith("which does not pay")


def test_what_an_adaptive_engine_chose_is_told_at_every_pace() -> None:
    variants = (v.model_copy(update={"adaptive": v.name == "ddtree-b16"}) for v in OF.variants)
    of = OF.model_copy(update={"variants": tuple(variants)})
    counted = {0: 70.0, 8: 900.0, 16: 95.0, 64: 5.0}
    after = {f'ddtree:decode_steps_total{{budget="{b}"}}': n for b, n in counted.items()}
    made = [
        one.model_copy(
            update={
                "counters_before": {'ddtree:decode_steps_total{budget="0"}': 70.0},
                "counters_after": one.counters_after | after,
            }
        )
        for one in records.records(of)
    ]
    told = [one for one in method(groups(of, made)) if "of the steps of" in one.text]
    assert [one.text for one in told] == [
        f"C={pace}: of the steps of ddtree-b16 had 90% budget 8, 10% budget 16" for pace in (1, 4)
    ]
    assert [one.records for one in told] == [("ddtree-b16.c1.r2",), ("ddtree-b16.c4.r2",)]
    uncounted = [one.model_copy(update={"counters_after": {}}) for one in made]
    assert not [one for one in method(groups(of, uncounted)) if "of the steps of" in one.text]


def test_nothing_is_said_of_a_method_that_was_not_measured() -> None:
    alone = [record for record in records.records(OF) if record.cell.variant.mode == "ar"]
    assert method(groups(OF, alone)) == ()
    assert method(groups(OF, [])) == ()


def test_where_every_variant_is_slower_than_ar_it_is_to_be_served_without() -> None:
    said = "serve C=4 without drafts, or make them cheaper: the best variant there, "
    assert not [text for text in texts(records.records(OF)) if text.startswith("serve")]
    faster = changed("ar", 4, output_tok_s=1e6)
    (told,) = [text for text in texts(faster) if text.startswith("serve")]
    assert told.startswith(said)
    assert told.endswith("0.00x of ar")


@pytest.mark.parametrize(("fixed", "said"), [(0.9, True), (0.3, False)])
def test_a_step_that_is_mostly_there_whatever_is_verified_is_the_lever(
    fixed: float, *, said: bool
) -> None:
    parts = {"bytes": 0.0001, "a step": fixed * 0.001, "a node": 0.0001}
    apart = Breakdown((Apart("ar.c1.r1", 0.001, parts), Apart("x", 0.002, parts)))
    found = [text for text in texts(records.records(OF), apart=apart) if "step itself" in text]
    assert bool(found) == said
    if said:
        assert "of the 1.00 ms of ar.c1.r1, 90% are there" in found[0]
        assert found[0].endswith("its bytes at peak bandwidth take 10%")


def test_a_draft_that_often_ends_at_its_depth_wants_to_be_deeper() -> None:
    shares = (0.8, 0.5, 0.3)
    deep = changed("ddtree-b16", 1, accepted_per_position=shares)
    assert "draft deeper than 3: 30% of the steps of ddtree-b16 come so far" in texts(deep)
    rare = changed("ddtree-b16", 1, accepted_per_position=(0.8, 0.01))
    assert any(
        text.startswith("better drafts before deeper ones: only 1.0%") for text in texts(rare)
    )


def test_a_budget_that_paid_is_to_be_raised_and_one_that_did_not_is_not() -> None:
    assert "no budget above 8 at C=1: the last step up did not pay" in texts(records.records(OF))
    more = changed("ddtree-b16", 1, accept=9.0, tpot_s=None)
    assert not any("b16" in text and "budget" in text for text in texts(more))


def test_what_would_make_the_numbers_surer_comes_last() -> None:
    *_, looked, sampled = texts(records.records(OF))
    assert looked == "measure the first cell again at the end (`again: true`)"
    assert sampled.startswith("sample power")
    once = records.matrix()
    assert "measure three repeats: one repeat tells no spread" in texts(
        records.records(once), of=once
    )


def test_a_cell_that_failed_is_to_be_found_out_about() -> None:
    made = records.records(OF, troubled=True)
    assert "find out why ddtree-b16 at C=4 failed: illegal-access" in texts(made)

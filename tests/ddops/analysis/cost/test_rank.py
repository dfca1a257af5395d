"""One rank's step and what all of them would take elsewhere, against arithmetic done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.analysis.cost import exchange
from ddops.analysis.cost.catalogue import field_record, link, processor, target
from ddops.analysis.cost.range import Range
from ddops.analysis.cost.rank import Projected, project
from ddops.errors import UsageError
from ddops.spec.cost import StepDocument

B300, H200, PRO_6000 = (processor(name) for name in ("b300", "h200", "pro6000"))


def document(**changes: Any) -> StepDocument:
    """An H200 whose copy reaches 4.2 of 4.8 TB/s, at 1.25 times the floor."""
    rows = [(0, 6.0), (8, 16.9), (16, 26.0)]
    return StepDocument.model_validate(
        {
            "schema_version": 1,
            "kind": "step",
            "ddtree_version": "0.1.0",
            "torch": "2.11.0",
            "device": "NVIDIA H200",
            "pair": "kimi-k2.6",
            "rank_of": 8,
            "weights": "random",
            "dtype": "bfloat16",
            "repeats": 15,
            "copy_bytes_per_s": 4.2e12,
            "steps": [
                {
                    "case": {"batch": 1, "budget": budget, "context": 2048},
                    "stages_ms": {},
                    "floor_bytes": round(gb * 1e9),
                    "floor_ms": gb / 4.2,
                    "step_ms": 1.25 * gb / 4.2,
                    "ratio": 1.25,
                }
                for budget, gb in rows
            ],
            **changes,
        }
    )


def at(budget: int, on: str, **given: Any) -> Projected:
    made = project(document(), [processor(on)], field_record(), **given)
    return next(one for one in made if one.row.case.budget == budget)


def test_on_a_faster_gpu_all_of_the_step_shrinks_or_only_its_bytes() -> None:
    one = at(8, "b300")
    floor = 16.9 / 4.2 * 1e-3 * 4.8 / 8
    assert one.rank_s.low == pytest.approx(1.25 * floor)
    assert one.rank_s.high == pytest.approx(floor + 0.25 * 16.9 / 4.2 * 1e-3)


def test_on_a_slower_gpu_all_of_it_grows_or_only_its_bytes() -> None:
    one = at(8, "pro6000")
    floor = 16.9 / 4.2 * 1e-3 * 4.8 / 1.8
    assert one.rank_s.low == pytest.approx(floor + 0.25 * 16.9 / 4.2 * 1e-3)
    assert one.rank_s.high == pytest.approx(1.25 * floor)


def test_the_all_reduce_is_added_and_shown_with_its_working() -> None:
    """123 of 9 rows of 7168 values: latency, and 7/4 of the bytes over the link. Then logits."""
    one = at(8, "b300")
    moved = (123 * 1.75 * 2 * 9 * 7168 + 0.875 * 2 * 9 * 163840) / 370e9
    assert one.all_reduce_s.low == pytest.approx(124 * 3e-6 + moved)
    assert one.all_reduce_s.high == pytest.approx(124 * 15e-6 + moved)
    assert one.step_s.low == pytest.approx(one.rank_s.low + one.all_reduce_s.low)
    assert one.why.startswith("122 x (3 to 15 us + 126 KiB at 370 GB/s)")


def test_the_record_s_cells_stand_beside() -> None:
    fastest, pcie = at(8, "b300").record, at(8, "pro6000").record
    assert fastest is not None and pcie is not None
    assert (fastest.tok_s, pcie.tok_s) == (303, 138.7)
    assert at(16, "b300").record is None


def test_tokens_a_second_are_accept_over_the_step() -> None:
    one = at(8, "b300", accept=Range(4.0, 5.0))
    assert one.tok_s is not None
    assert one.tok_s.low == pytest.approx(4.0 / one.step_s.high)
    assert one.tok_s.high == pytest.approx(5.0 / one.step_s.low)
    assert at(0, "b300", accept=Range(4.0, 5.0)).accept == Range(1, 1)
    assert at(16, "b300").accept == Range(5.3, 6.4)


def test_a_budget_whose_accept_nobody_measured_has_no_tokens_a_second() -> None:
    rows = [{**document().steps[1].model_dump(), "case": {"batch": 1, "budget": 12, "context": 9}}]
    (one,) = project(document(steps=rows), [B300], field_record())
    assert (one.accept, one.tok_s) == (None, None)


def test_where_it_was_measured_nothing_but_the_all_reduce_is_added() -> None:
    made = project(document(), [H200], field_record())
    assert [one.rank_s.low for one in made] == pytest.approx([one.rank_s.high for one in made])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rank_of": None}, "not on one rank of several"),
        ({"rank_of": 1}, "not on one rank of several"),
        ({"layers": 2}, "2 of 61 layers were timed"),
        ({"device": "NVIDIA T4"}, "is not listed"),
        ({"pair": "kimi"}, "no model `kimi`"),
    ],
)
def test_what_cannot_be_projected_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        project(document(**changes), [PRO_6000], field_record())


def test_what_a_newer_engine_says_beside_is_not_read() -> None:
    assert document(layers=61).rank_of == 8
    assert document(expert_hits={"uniform": [64.9]}, argv=["python"]) == document()


def test_a_drafter_that_ranks_share_has_sums_of_its_own() -> None:
    told = document(absent={"all_reduces_a_draft": 13, "tokens_of_a_draft": 8})
    before, after = (
        project(one, [B300], field_record(), Range(1.0, 1.0)) for one in (document(), told)
    )
    assert after[0].all_reduce_s == before[0].all_reduce_s, "nothing is drafted in ar"
    more = 13 * exchange.one(target("kimi-k2.6"), 8, 8, link(B300), late=True)
    assert after[1].all_reduce_s.high == pytest.approx(before[1].all_reduce_s.high + more)

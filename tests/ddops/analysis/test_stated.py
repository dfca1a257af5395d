"""A stated claim is true only where the records it names bear it out, digit by digit."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ddops.analysis.stated import Source, judge, of_records, unknown
from ddops.spec.claims import StatedClaim
from ddops.spec.transcript import Span
from tests.ddops import records

SOURCES = {
    "ar": Source({"output_tok_s": 133.0}),
    "b8": Source({"output_tok_s": 285.0, "accept": 4.48}),
    "b8-again": Source({"output_tok_s": 280.0}),
    "b16": Source({"output_tok_s": 111.0, "accept": Span(low=5.3, high=6.4)}),
    "b32": Source({"accept": 1.0}, "failed: garbage"),
    "idle": Source({"output_tok_s": 0.0}),
}


def claim(kind: str, of: list[str], base: list[str] | None = None, **more: Any) -> StatedClaim:
    return StatedClaim.model_validate(
        {"says": "…", "kind": kind, "of": of, "base": base or [], **more}
    )


def steps(stated: StatedClaim) -> list[tuple[str, bool]]:
    return [(step.text, step.holds) for step in judge(stated, SOURCES).steps]


@pytest.mark.parametrize(
    ("stated", "tolerance", "text", "holds"),
    [
        (2.14, 0.005, "285 / 133 = 2.143, stated 2.14 ± 0.005", True),
        (2.15, 0.005, "285 / 133 = 2.143, stated 2.15 ± 0.005: off by 0.00714", False),
        (2.15, 0.01, "285 / 133 = 2.143, stated 2.15 ± 0.01", True),
    ],
)
def test_a_ratio_holds_within_its_tolerance(
    stated: float, tolerance: float, text: str, *, holds: bool
) -> None:
    asked = claim("ratio", ["b8"], ["ar"], stated=stated, tolerance=tolerance)
    assert steps(asked) == [(text, holds)]


def test_a_difference_is_what_is_left() -> None:
    asked = claim("difference", ["b8"], ["ar"], stated=150, tolerance=2)
    assert steps(asked) == [("285 - 133 = 152, stated 150 ± 2", True)]


def test_every_pair_has_to_hold() -> None:
    asked = claim("more", ["b8", "ar"], ["ar", "b16"])
    assert steps(asked) == [("285 > 133", True), ("133 > 111", True)]
    asked = claim("more", ["b8", "b16"], ["ar", "ar"])
    assert [held for _, held in steps(asked)] == [True, False]
    assert not judge(asked, SOURCES).holds


def test_equal_is_not_more() -> None:
    assert steps(claim("more", ["ar"], ["ar"])) == [("133 = 133", False)]


def test_the_largest_is_above_every_other() -> None:
    assert judge(claim("maximum", ["b8"], ["ar", "b16", "b8-again"]), SOURCES).holds
    assert not judge(claim("maximum", ["b8-again"], ["ar", "b8"]), SOURCES).holds
    assert judge(claim("minimum", ["b16"], ["ar", "b8"]), SOURCES).holds


def test_a_value_is_what_every_record_says() -> None:
    asked = claim("value", ["b8", "b8-again"], stated=283, tolerance=2)
    assert [held for _, held in steps(asked)] == [True, False]


@pytest.mark.parametrize(
    ("of", "figure", "why"),
    [
        ("b32", "accept", "b32 failed: garbage, so nothing follows from it"),
        ("ar", "accept", "ar has no accept"),
        ("b16", "accept", "b16 has accept 5.3 to 6.4, no single number"),
    ],
)
def test_nothing_follows_from_what_is_no_number(of: str, figure: str, why: str) -> None:
    asked = claim("value", [of], figure=figure, stated=1, tolerance=10)
    assert steps(asked) == [(why, False)]


def test_nothing_is_divided_by_zero() -> None:
    asked = claim("ratio", ["ar"], ["idle"], stated=1, tolerance=1)
    assert steps(asked) == [("133 / 0 is no number", False)]


def test_of_a_run_neither_failures_nor_red_gates_have_figures() -> None:
    made = of_records(records.records(records.matrix(), troubled=True))
    assert made["ddtree-b16.c4.r1"] == Source({}, "failed: illegal-access")
    assert made["ddtree-b8.c4.r1"] == Source({}, "invalid: garbage")
    assert made["ddtree-b8.c1.r1"].figures.keys() == {
        "output_tok_s", "accept", "ttft_p50_s", "tpot_p50_s",
    }  # fmt: skip
    assert "accept" not in made["ar.c1.r1"].figures


def test_records_that_are_not_there_are_named_once() -> None:
    asked = [claim("more", ["b8", "b9"], ["b9", "ar"])]
    assert unknown(asked, SOURCES) == ["b9"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"kind": "ratio", "of": ["a"], "base": ["b"]}, "`stated` and `tolerance`"),
        ({"kind": "more", "of": ["a"], "base": ["b"], "stated": 1, "tolerance": 0}, "to no other"),
        ({"kind": "more", "of": ["a", "b"], "base": ["c"]}, "as many records"),
        ({"kind": "maximum", "of": ["a"]}, "the others in `base`"),
        ({"kind": "value", "of": ["a"], "base": ["b"], "stated": 1, "tolerance": 0}, "no `base`"),
    ],
)
def test_a_claim_that_cannot_be_worked_out_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        StatedClaim.model_validate({"says": "…", **keys})

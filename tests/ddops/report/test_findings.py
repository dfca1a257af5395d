"""What is worked out from a transcript: ratios, steps, a bottleneck, boxes side by side."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.report.findings import Findings, bottleneck, findings
from ddops.spec.transcript import Power, Span, Transcript

AR = {"name": "ar", "mode": "ar"}
B8 = {"name": "b8", "mode": "ddtree", "budget": 8}
POWER = {"drawn_w": {"low": 200, "high": 300}, "limit_w": 1000, "utilisation": 1.0}


def of(*cells: dict[str, Any], figures: tuple[dict[str, Any], ...] = ()) -> Findings:
    words = {"method": (), "deployed": (), "constraints": (), "next": (), "flags": ()}
    transcript = {
        "schema_version": 1,
        "kind": "transcribed",
        "source": "a letter",
        "box": "b300",
        "cells": cells,
        "power": POWER,
        "figures": figures,
        **words,
    }
    return findings("made", Transcript.model_validate(transcript), ())


def test_a_speed_is_put_over_that_of_ar_at_the_same_concurrency() -> None:
    found = of(
        {"variant": AR, "concurrency": 1, "output_tok_s": 100},
        {"variant": AR, "concurrency": 8, "output_tok_s": 400},
        {"variant": B8, "concurrency": 8, "output_tok_s": 300},
        {"variant": B8, "concurrency": 64, "output_tok_s": 900},
    )
    assert [row[3] for row in found.results] == ["-", "-", "300 / 400 = 0.750", "-"]


def test_a_step_of_one_stream_is_accept_over_speed() -> None:
    found = of(
        {"variant": AR, "concurrency": 1, "output_tok_s": 100},
        {"variant": B8, "concurrency": 1, "output_tok_s": 200},
        {"variant": B8, "accept": {"low": 4, "high": 5}},
    )
    assert found.steps == (
        ("ar", "1", "100", "10.0", "1.00"),
        ("b8", "4 to 5", "200", "20.0 to 25.0", "2.00 to 2.50"),
    )


def test_without_accept_there_is_no_step() -> None:
    found = of({"variant": B8, "concurrency": 1, "output_tok_s": 200})
    assert found.steps == (("b8", "-", "200", "-", "-"),)


def test_a_failure_is_a_row_without_a_speed() -> None:
    failure = {"kind": "garbage", "message": "accept is 1"}
    found = of({"variant": B8, "output_tok_s": 999, "failure": failure})
    assert found.results == (("b8", "-", "-", "-", "garbage: accept is 1"),)


def test_figures_of_two_boxes_stand_side_by_side() -> None:
    found = of(
        figures=(
            {"name": "a-memory", "box": "a", "value": 80, "unit": "GB", "about": "HBM"},
            {"name": "b-memory", "box": "b", "value": 90, "unit": "GB", "about": "GDDR"},
            {"name": "b-tdp", "box": "b", "value": 600, "unit": "W", "about": "limit"},
            {"name": "size", "value": {"low": 1, "high": 2}, "unit": "GB", "about": "weights"},
        )
    )
    assert found.boxes == ("a", "b")
    assert found.figures == (
        ("memory", "80 GB; HBM", "90 GB; GDDR"),
        ("tdp", "", "600 W; limit"),
    )
    assert found.others == (("size", "1 to 2 GB", "weights"),)


@pytest.mark.parametrize(
    ("drawn", "utilisation", "said"),
    [
        ((360, 460), 1.0, "HBM-bound. A kernel runs 100% of the time at 42% of the power limit"),
        ((360, 1000), 1.0, "more than one cause"),
        ((360, 460), 0.5, "whether the host works meanwhile is not known"),
    ],
)
def test_the_bottleneck_follows_from_power_and_utilisation(
    drawn: tuple[float, float], utilisation: float, said: str
) -> None:
    power = Power(drawn_w=Span(low=drawn[0], high=drawn[1]), limit_w=1100, utilisation=utilisation)
    assert said in bottleneck(power)


def test_two_cells_of_one_name_are_refused() -> None:
    cell = {"variant": B8, "concurrency": 1, "output_tok_s": 1}
    with pytest.raises(ValueError, match=r"called b8\.c1"):
        of(cell, cell)

"""Every figure of the field record's cost model, from its own anchors."""

from __future__ import annotations

import pytest

from ddops.analysis.cost.catalogue import field_record
from ddops.analysis.cost.field import Line, lines
from ddops.spec.load import read
from ddops.spec.transcript import Transcript
from tests.checkout import ROOT

LINES = lines()


def line(what: str, unit: str | None = None) -> Line:
    return next(each for each in LINES if each.what == what and unit in (None, each.unit))


@pytest.mark.parametrize(
    ("what", "low", "high"),
    [
        ("step, autoregressive", 7.519, 7.519),
        ("step, budget 8", 14.389, 14.521),
        ("bandwidth ratio", 4.444, 4.444),
        ("MoE at 9 tokens on the NVLink box", 1.967, 1.967),
        ("all else at budget 8", 12.423, 12.555),
        ("MoE at 33 tokens", 5.289, 5.289),
        ("MoE product, share of 1.8 TB/s, packed weights", 68.7, 72.6),
        ("MoE product, share of 1.8 TB/s, with scales", 77.3, 81.6),
        ("step at budget 32", 20.3, 20.3),
        ("stronger drafter, budget 32", 588.2, 784.3),
        ("and a native engine", 754.7, 1006.3),
        ("budget 16 with graphs, no growth", 368.97, 368.97),
        ("its gain when verify grows", 13.62, 19.17),
        ("ar step over its floor", 9.23, 9.23),
        ("ddtree step over its floor", 6.317, 6.317),
    ],
)
def test_the_arithmetic_of_the_record_is_done_again(what: str, low: float, high: float) -> None:
    ours = line(what).ours
    assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-3)


@pytest.mark.parametrize(
    ("tokens", "gb", "ms"),
    [(1, 6.0, 0.8), (9, 16.9, 2.3), (17, 26, 3.5), (33, 40, 5.4), (65, 58, 7.8)],
)
def test_the_table_of_floors_comes_out_to_a_hundredth(tokens: int, gb: float, ms: float) -> None:
    what = f"floor, {tokens} tokens"
    assert line(what, "GB").ours.low == pytest.approx(gb, rel=0.01)
    assert round(line(what, "ms").ours.low, 1) == ms


def test_both_scenarios_stand_beside_what_the_record_said() -> None:
    stronger, native = line("stronger drafter, budget 32"), line("and a native engine")
    assert stronger.said is not None and native.said is not None
    assert (stronger.said.low, stronger.said.high) == (575, 770)
    assert (native.said.low, native.said.high) == (850, 980)
    assert native.ours.low < native.said.low, "the record's lower end is above its arithmetic"
    assert "13.5" in native.note


def test_the_369_line_carries_its_caveat() -> None:
    assert "only if verify cost did not grow" in line("budget 16 with graphs, no growth").note
    gain = line("its gain when verify grows")
    assert gain.said is not None
    assert gain.ours.high < 29.5
    assert gain.ours.high == pytest.approx(gain.said.low, abs=1), "near the record's lower end"


def test_the_cell_that_nothing_was_fitted_to_is_met_within_two_percent() -> None:
    held_out = line("budget 8 at C=128, held out")
    assert held_out.said is not None
    assert held_out.ours.low == pytest.approx(held_out.said.low, rel=0.02)


def test_its_cells_are_those_of_the_transcript() -> None:
    written = read(ROOT / "repro" / "k26-ddtree" / "records.yaml", Transcript)
    known = {(one.variant.budget or 0, one.concurrency, one.output_tok_s) for one in written.cells}
    cells = {
        (cell.budget, cell.concurrency, cell.tok_s)
        for cell in field_record().cells
        if cell.box == "b300"
    }
    assert cells <= known


def test_every_line_shows_its_working_and_what_was_said() -> None:
    assert all(each.working and each.said for each in LINES)

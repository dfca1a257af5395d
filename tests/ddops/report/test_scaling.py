"""Two plots over all cells: how the service scales with C, and what its steps are made of."""

from __future__ import annotations

import pytest

from ddops.analysis.cost.breakdown import breakdown
from ddops.analysis.repeats import Group, groups
from ddops.report.scaling import scaling, steps
from ddops.spec.record import Record
from tests.ddops import records

OF = records.matrix()
MADE = records.records(OF)


def grouped(made: list[Record]) -> tuple[Group, ...]:
    return groups(OF, made)


def test_every_measured_point_of_the_scaling_leads_to_its_record() -> None:
    plot = scaling(grouped(MADE))
    assert plot is not None
    for record in MADE:
        assert f'href="#cell-{record.cell.id}"' in plot.svg
    assert "what ar makes at C=1, times C" in plot.caption


def test_one_point_scales_nowhere() -> None:
    assert scaling(grouped([one for one in MADE if one.cell.concurrency == 1])) is None


def test_what_failed_or_is_invalid_is_not_drawn() -> None:
    plot = scaling(grouped(records.records(OF, troubled=True)))
    assert plot is not None
    assert "ddtree-b8.c4" not in plot.svg
    assert "ddtree-b16.c4" not in plot.svg


def test_a_step_s_parts_add_up_to_what_the_fit_makes_of_it() -> None:
    found = breakdown(records.run(OF), MADE)
    assert found is not None
    assert [one.cell for one in found.steps] == [record.cell.id for record in MADE]
    for one in found.steps:
        assert sum(one.parts.values()) == pytest.approx(one.measured_s * (1 + one.error))
    assert found.error < 0.2
    plot = steps(found)
    assert plot is not None
    assert "a node" in plot.svg
    assert 'href="#cell-ddtree-b16.c4.r1"' in plot.svg
    assert f"median error {found.error:.0%}" in plot.caption


def test_too_few_steps_are_not_taken_apart() -> None:
    assert breakdown(records.run(OF), MADE[:3]) is None
    assert steps(None) is None

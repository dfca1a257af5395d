"""How `ddops bench` reads its command line, and what its table shows."""

from __future__ import annotations

import io

import pytest

from ddops.analysis.compare import rows
from ddops.analysis.effort import efforts
from ddops.analysis.telemetry import Expected, telemetry
from ddops.cli.bench import draw, with_matrix
from ddops.cli.output import console
from ddops.spec.telemetry import Telemetry
from tests.ddops import records, sampled


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["local"], ["local"]),
        (["local", "--matrix"], ["local", "--matrix", "local"]),
        (["--matrix", "--yes"], ["--matrix", "local", "--yes"]),
        (["--matrix", "my.yaml", "--yes"], ["--matrix", "my.yaml", "--yes"]),
        (["--matrix=my.yaml", "box"], ["--matrix=my.yaml", "box"]),
    ],
)
def test_matrix_without_a_file_is_the_default(typed: list[str], read: list[str]) -> None:
    assert with_matrix(typed) == read


def shown(*told: Telemetry | None) -> list[list[str]]:
    """The words of each line of the table, for one cell a telemetry."""
    of = records.matrix()
    cells = records.cells(of)[: len(told)]
    made = [records.record(c, of, telemetry=t) for c, t in zip(cells, told, strict=True)]
    beside = {one.cell: one for one in efforts(made)}
    printed = io.StringIO()
    console(printed).print(draw(rows(made), beside), soft_wrap=True)
    return [line.split("  ") for line in printed.getvalue().splitlines()]


def test_a_table_without_samples_has_no_word_of_power() -> None:
    assert "limited by" not in shown(None)[0]
    assert "J/token" not in shown(None)[0]


def test_energy_and_limit_stand_before_the_gate() -> None:
    told = telemetry(sampled.text(), sampled.WINDOW, Expected(tokens=2000, gpus=1, used=1))
    head, first, second = shown(told, None)
    assert [name.strip() for name in head if name.strip()][-3:] == ["J/token", "limited by", "gate"]
    assert [word.strip() for word in first if word.strip()][-3:] == ["2", "cannot say", "ok"]
    assert [word.strip() for word in second if word.strip()][-3:] == ["-", "-", "ok"]


def test_without_any_energy_there_is_no_column_for_it() -> None:
    told = telemetry(sampled.text(gpus=0), sampled.WINDOW, Expected(2000, gpus=0, used=0))
    head, first = shown(told)
    assert "J/token" not in "".join(head)
    assert "host-bound" in "".join(first)

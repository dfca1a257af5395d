"""The first cell again at the end tells whether the box was the same all along."""

from __future__ import annotations

import pytest

from ddops.analysis.repeats import groups
from ddops.analysis.steady import steadiness
from ddops.spec.record import Record
from tests.ddops import records

OF = records.matrix().model_copy(update={"again": True})


def looked_again(factor: float) -> list[Record]:
    """All cells, and the first once more with `factor` times its speed."""
    made = records.records(OF)
    cell = made[0].cell.model_copy(update={"again": True})
    metrics = made[0].metrics
    assert metrics is not None
    faster = metrics.model_copy(update={"output_tok_s": metrics.output_tok_s * factor})
    return [*made, made[0].model_copy(update={"cell": cell, "metrics": faster})]


@pytest.mark.parametrize(
    ("factor", "steady", "said"),
    [
        (1.02, True, "the box stayed the same: ar.c1.r1 made"),
        (0.9, False, "the box changed while it was measured: ar.c1.r1 made"),
        (1.2, False, "(+20.0%), so ratios may be its doing"),
    ],
)
def test_a_speed_that_is_another_at_the_end_is_told(
    factor: float, *, steady: bool, said: str
) -> None:
    found = steadiness(looked_again(factor))
    assert found is not None
    assert found.steady == steady
    assert said in found.text


def test_a_last_look_that_failed_leaves_it_unknown() -> None:
    made = looked_again(1.0)
    failed = records.failed(made[-1].cell, OF)
    found = steadiness([*made[:-1], failed])
    assert found is not None
    assert not found.steady
    assert found.text.endswith("ar.c1.r1 was ok first, failed: illegal-access last")


def test_without_a_last_look_there_is_nothing_to_say() -> None:
    assert steadiness(records.records(OF)) is None
    assert steadiness(looked_again(1.0)[1:]) is None


def test_the_last_look_is_no_repeat() -> None:
    grouped = groups(OF, looked_again(9.0))
    assert [len(group.records) for group in grouped] == [1] * 8
    assert {group.speedup.base for group in grouped if group.speedup} == {"ar.c1.r1", "ar.c4.r1"}

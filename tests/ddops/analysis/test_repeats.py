"""A group speaks through its median repeat, and only through records that are good."""

from __future__ import annotations

import pytest

from ddops.analysis.claims import claims
from ddops.analysis.repeats import Group, groups, step_s, user_tok_s
from tests.ddops import records


def grouped(*, repeats: int = 1, troubled: bool = False) -> dict[str, Group]:
    of = records.matrix(repeats=repeats)
    made = groups(of, records.records(of, troubled=troubled))
    return {f"{group.variant.name}.c{group.concurrency}": group for group in made}


def test_every_cell_of_the_matrix_has_its_group() -> None:
    of = records.matrix()
    made = groups(of, [])
    assert len(made) == len(of.variants) * len(of.concurrency)
    assert {group.verdict for group in made} == {"not measured"}


def test_the_median_repeat_speaks_and_is_compared_with_the_median_of_ar() -> None:
    group = grouped(repeats=3)["ddtree-b8.c1"]
    assert group.median is not None
    assert group.median.metrics is not None
    assert sorted(group.throughputs)[1] == group.median.metrics.output_tok_s
    base = grouped(repeats=3)["ar.c1"].median
    assert group.speedup is not None
    assert base is not None
    assert (group.speedup.of, group.speedup.base) == (group.median.cell.id, base.cell.id)
    assert [each.base for each in group.by_repeat] == ["ar.c1.r1", "ar.c1.r2", "ar.c1.r3"]


@pytest.mark.parametrize("name", ["ddtree-b8.c4", "ddtree-b16.c4"])
def test_neither_a_failure_nor_a_red_gate_has_a_speed(name: str) -> None:
    group = grouped(troubled=True)[name]
    assert (group.median, group.speedup, group.throughputs) == (None, None, ())
    assert group.verdict in ("invalid: garbage", "failed: illegal-access")


def test_a_step_takes_as_long_as_it_was_made_to_take() -> None:
    for name in ("ar", "ddtree-b4", "ddtree-b16"):
        median = grouped()[f"{name}.c1"].median
        assert median is not None
        assert median.metrics is not None
        assert step_s(median.metrics) == pytest.approx(records.STEP_S[name], rel=0.1)
        assert user_tok_s(median.metrics) == pytest.approx(
            records.ACCEPT[name] / records.STEP_S[name], rel=0.15
        )


def test_claims_name_the_winner_the_losers_and_their_records() -> None:
    made = claims(tuple(grouped(troubled=True).values()))
    said = {claim.text.partition(",")[0]: claim.records for claim in made}
    assert said["C=1: ddtree-b8 is fastest"] == ("ddtree-b8.c1.r1", "ar.c1.r1")
    assert said["C=4: ddtree-b16 failed: illegal-access"] == ("ddtree-b16.c4.r1",)


def test_a_variant_slower_than_ar_is_told() -> None:
    of = records.matrix()
    slow = of.variants[3]
    made = {r.cell.id: r for r in records.records(of)}
    cell = made["ddtree-b16.c1.r1"].cell
    metrics = made["ddtree-b16.c1.r1"].metrics
    assert metrics is not None
    halved = metrics.model_copy(update={"output_tok_s": 30.0})
    made["ddtree-b16.c1.r1"] = records.record(cell, of, metrics=halved)
    texts = [claim.text for claim in claims(groups(of, list(made.values())))]
    assert any(text.startswith(f"C=1: {slow.name} is slower than ar, 0.6") for text in texts)


def at_speeds(ar: list[float], b8: list[float]) -> list[str]:
    """The claims of a run in which only these were measured at C=1."""
    of = records.matrix(repeats=len(ar))
    made = []
    for record in records.records(of):
        speeds = {"ar": ar, "ddtree-b8": b8}.get(record.cell.variant.name)
        if speeds and record.metrics and record.cell.concurrency == 1:
            told = {"output_tok_s": speeds[record.cell.repeat - 1]}
            metrics = record.metrics.model_copy(update=told)
            made.append(records.record(record.cell, of, metrics=metrics))
    return [claim.text for claim in claims(groups(of, made)) if "not measured" not in claim.text]


def test_the_fastest_is_never_said_to_be_slower_than_ar() -> None:
    assert at_speeds([8.2, 10.8], [12.6, 8.3]) == [
        "C=1: ddtree-b8 is fastest, 8.3 tok/s, 1.01x of ar (not settled: 0.77x to 1.54x by repeat)"
    ]


def test_repeats_that_agree_say_how_far_they_are_apart() -> None:
    assert at_speeds([10.0, 10.0, 10.0], [15.0, 16.0, 17.0]) == [
        "C=1: ddtree-b8 is fastest, 16.0 tok/s, 1.60x of ar (1.50x to 1.70x by repeat)"
    ]


def test_what_was_measured_alone_is_not_called_the_fastest() -> None:
    assert at_speeds([10.0], []) == ["C=1: ar alone was measured, 10.0 tok/s"]


def test_where_ar_itself_is_fastest_it_is_said() -> None:
    assert at_speeds([10.0], [9.0]) == [
        "C=1: ar is fastest, 10.0 tok/s (autoregressive decoding itself)",
        "C=1: ddtree-b8 is slower than ar, 0.90x",
    ]


def test_what_was_not_measured_is_one_sentence_a_variant() -> None:
    of = records.matrix()
    made = [r for r in records.records(of) if r.cell.variant.mode == "ar"]
    said = [claim.text for claim in claims(groups(of, made)) if "not measured" in claim.text]
    assert "ddtree-b8 not measured at C=1, C=4" in said
    assert len(said) == len({variant.name for variant in of.variants}) - 1

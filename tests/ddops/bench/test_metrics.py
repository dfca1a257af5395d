"""Every metric, on traces whose numbers are known."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops.bench import metrics
from ddops.bench.counters import Speculation
from ddops.spec.matrix import Load, Slo
from ddops.spec.record import Chunk, Trace


def trace(
    *chunks: tuple[float, int], sent: float = 0.0, error: str | None = None, prompt: int = 7
) -> Trace:
    return Trace(
        prompt="p",
        sent=sent,
        first=chunks[0][0] if chunks else None,
        last=chunks[-1][0] if chunks else None,
        chunks=tuple(Chunk(at=at, tokens=tokens) for at, tokens in chunks),
        prompt_tokens=prompt,
        completion_tokens=sum(tokens for _, tokens in chunks),
        finish_reason="length",
        text_sha256=None,
        error=error,
    )


def load(**limits: Any) -> Load:
    return Load(requests=1, warmup=0, max_tokens=9, **limits)


def test_ttft_is_the_time_of_the_first_token() -> None:
    assert metrics.ttft_s(trace((0.3, 1), (0.5, 4))) == 0.3


def test_tpot_counts_tokens_and_not_chunks() -> None:
    assert metrics.tpot_s(trace((0.1, 1), (0.3, 4), (0.5, 4))) == pytest.approx(0.4 / 8)


@pytest.mark.parametrize("chunks", [(), ((0.1, 1),)])
def test_tpot_needs_two_tokens(chunks: tuple[tuple[float, int], ...]) -> None:
    assert metrics.tpot_s(trace(*chunks)) is None


def test_itl_spreads_a_gap_over_the_tokens_it_brought() -> None:
    gaps = metrics.itl_s([trace((0.1, 1), (0.3, 4), (0.4, 1))])
    same = metrics.spread([0.05, 0.05, 0.05, 0.05, 0.1])
    assert gaps is not None and same is not None
    assert gaps.model_dump() == pytest.approx(same.model_dump())


def test_a_chunk_without_tokens_is_no_chunk() -> None:
    with pytest.raises(ValueError, match="or none"):
        metrics.itl_s([trace((0.1, 1), (0.3, 0))])


def test_throughput_counts_the_requests_that_ended_well() -> None:
    good, bad = trace((0.1, 1), (2.0, 99)), trace((0.1, 50), error="lost")
    derived = metrics.derive([good, bad], 2.0, {}, {})
    assert derived.output_tok_s == 50.0
    assert (derived.completed, derived.failed) == (1, 1)
    assert (derived.prompt_tokens, derived.completion_tokens) == (7, 100)
    assert derived.accept is None


def test_concurrency_achieved_is_the_mean_number_in_flight() -> None:
    traces = [trace((2.0, 1)), trace((1.0, 1), sent=1.0)]
    assert metrics.derive(traces, 2.0, {}, {}).concurrency_achieved == 1.5


def test_what_was_sent_while_the_load_rose_or_fell_is_not_measured() -> None:
    """Ten a second apart, each of 3 s and 30 tokens: three are in flight in the middle."""
    traces = [trace((1.0, 10), (2.0, 10), (3.0, 10), sent=float(n)) for n in range(10)]
    found = metrics.derive(traces, 12.0, {}, {}, load(settle_s=3.5, drain_s=2.0))
    assert found.duration_s == 3.5  # from 3.5 to 9 - 2
    assert (found.completed, found.failed) == (4, 0)  # sent at 4, 5, 6 and 7
    assert found.concurrency_achieved == pytest.approx(3.0)
    assert found.output_tok_s == pytest.approx(12 * 10 / 3.5)  # what came at 4, 5, 6 and 7
    assert found.requests_s == pytest.approx(4 / 3.5)


def test_a_window_without_limits_is_measured_whole() -> None:
    traces = [trace((1.0, 10), sent=float(n)) for n in range(4)]
    plain = metrics.derive(traces, 4.0, {}, {})
    assert metrics.derive(traces, 4.0, {}, {}, load()) == plain
    assert (plain.duration_s, plain.output_tok_s, plain.requests_s) == (4.0, 10.0, 1.0)
    assert plain.goodput_s is None


def test_a_window_that_is_all_rise_and_fall_measures_nothing() -> None:
    found = metrics.derive([trace((1.0, 9))], 1.0, {}, {}, load(settle_s=5.0))
    assert (found.completed, found.output_tok_s, found.requests_s) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"ttft_s": 0.1}, 2),
        ({"ttft_s": 0.3}, 3),
        ({"tpot_s": 0.05}, 1),
        ({"itl_s": 0.2}, 2),
        ({"e2e_s": 1.0}, 2),
        ({"ttft_s": 0.1, "e2e_s": 1.0}, 1),
    ],
)
def test_goodput_counts_the_answers_that_kept_every_limit(
    limits: dict[str, float], kept: int
) -> None:
    traces = [
        trace((0.1, 1), (0.3, 4)),  # 0.05 a token
        trace((0.1, 1), (0.2, 1), (1.2, 1)),  # a stall of a second
        trace((0.3, 1), (0.5, 1)),  # late
        trace((0.01, 1), error="lost"),
    ]
    found = metrics.derive(traces, 2.0, {}, {}, load(slo=Slo(**limits)))
    assert found.goodput_s == pytest.approx(kept / 2.0)


def test_how_late_requests_were_sent_is_told_of_an_open_loop_only() -> None:
    late = trace((0.1, 1), sent=1.25).model_copy(update={"due": 1.0})
    found = metrics.derive([late], 2.0, {}, {}).sent_late_s
    assert found is not None
    assert found.max == 0.25
    assert metrics.derive([trace((0.1, 1))], 2.0, {}, {}).sent_late_s is None


def test_an_empty_window_has_no_speed() -> None:
    derived = metrics.derive([], 0.0, {}, {})
    assert (derived.output_tok_s, derived.concurrency_achieved) == (0.0, 0.0)
    assert derived.ttft_s is derived.tpot_s is derived.itl_s is derived.e2e_s is None


def test_accept_is_one_plus_accepted_per_verify_step() -> None:
    counted = Speculation(200, 1600, 500, (180, 160, 160), 700)
    assert metrics.accept(counted) == 3.5
    assert metrics.accepted_per_position(counted) == (0.9, 0.8, 0.8)


@pytest.mark.parametrize(
    "counted",
    [Speculation(0, 0, 0, (), 5), Speculation(None, None, None, (), None)],
    ids=["no steps in the window", "no counters"],
)
def test_accept_is_unknown_without_verify_steps(counted: Speculation) -> None:
    assert metrics.accept(counted) is None
    assert metrics.accepted_per_position(counted) is None


def test_derive_uses_differences_and_not_lifetime_values() -> None:
    steps = "ddtree:spec_decode_num_drafts_total"
    accepted = "ddtree:spec_decode_num_accepted_tokens_total"
    before = {steps: 1000.0, accepted: 9000.0}
    derived = metrics.derive([], 1.0, before, {steps: 1100.0, accepted: 9150.0})
    assert derived.accept == 2.5


def test_percentiles_lie_linearly_between_order_statistics() -> None:
    spread = metrics.spread([4.0, 1.0, 3.0, 2.0])
    assert spread is not None
    assert (spread.min, spread.p50, spread.max) == (1.0, 2.5, 4.0)
    assert spread.p90 == pytest.approx(3.7)


TIMES = st.floats(0, 1e3, allow_nan=False)


@given(st.lists(TIMES, min_size=2, max_size=60))
def test_a_spread_agrees_with_the_statistics_module(values: list[float]) -> None:
    spread = metrics.spread(values)
    assert spread is not None
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.std == pytest.approx(statistics.stdev(values), abs=1e-9)
    assert spread.p50 == pytest.approx(statistics.median(values))
    assert spread.min <= spread.p50 <= spread.p90 <= spread.p99 <= spread.max
    assert spread.n == len(values)


@given(st.lists(st.tuples(st.floats(0.001, 1), st.integers(1, 9)), min_size=2, max_size=40))
def test_the_gaps_of_a_request_add_up_to_its_decode_time(steps: list[tuple[float, int]]) -> None:
    times = [sum(gap for gap, _ in steps[: n + 1]) for n in range(len(steps))]
    heard = trace(*((at, tokens) for at, (_, tokens) in zip(times, steps, strict=True)))
    gaps = metrics.itl_s([heard])
    assert gaps is not None
    assert gaps.n == sum(tokens for _, tokens in steps[1:])
    assert gaps.mean * gaps.n == pytest.approx(times[-1] - times[0])


@given(st.lists(st.tuples(TIMES, st.integers(1, 9)), min_size=1, max_size=40))
def test_a_value_with_a_count_is_that_many_values(counted: list[tuple[float, int]]) -> None:
    values, counts = (np.array(column) for column in zip(*counted, strict=True))
    one = metrics.weighed(values, counts)
    other = metrics.spread(np.repeat(values, counts).tolist())
    assert other is not None
    assert one.model_dump() == pytest.approx(other.model_dump(), rel=1e-9, abs=1e-9)

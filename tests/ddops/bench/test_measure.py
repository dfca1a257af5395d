"""The whole clock against a real server in a process of its own, with planted times."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import httpx
import pytest

from ddops.bench.client import Question, Target
from ddops.bench.measure import Measured, Work, measure
from ddops.bench.metrics import derive
from ddops.spec.record import Metrics
from tests.ddops.bench.mock_engine import Plan
from tests.ddops.bench.serving import serving

ONE_PERCENT = 0.01
SLOWER = (1, 3, 9, 20)
TOKENS = (1, *[4, 2] * 8)  # one token of the prompt's pass, then 16 verify steps


def work(concurrency: int, requests: int, **limits: float) -> Work:
    def questions(count: int, tokens: int) -> list[Question]:
        return [Question(f"p{n}", f"question {n}", tokens, 0.0, n) for n in range(count)]

    return Work(
        warm_up=questions(concurrency, 1),
        questions=questions(requests, 1000),
        concurrency=concurrency,
        timeout_s=limits.get("timeout_s", 60.0),
    )


def run(target: Target, what: Work) -> Measured:
    return measure(target, what, lambda: None)


def derived(measured: Measured) -> Metrics:
    window = measured.window
    return derive(window.traces, window.length_s, measured.counters_before, measured.counters_after)


def really(target: Target, concurrency: int) -> dict[str, float]:
    """The means that the server's own stamps give."""
    told = httpx.get(f"{target.url}/sent", timeout=10.0, trust_env=False).json()
    ttft, tpot = [], []
    for n in range(concurrency):
        sent = told[f"question {n}"]
        (first, _), *_, (last, _) = sent["chunks"]
        ttft.append(first - sent["received"])
        tpot.append((last - first) / (sum(TOKENS) - 1))
    return {"ttft": mean(ttft), "tpot": mean(tpot), "itl": mean(tpot), "e2e": _e2e(ttft, tpot)}


def _e2e(ttft: list[float], tpot: list[float]) -> float:
    return mean(ttft) + mean(tpot) * (sum(TOKENS) - 1)


def misses(found: Metrics, sent: dict[str, float]) -> dict[str, tuple[float, float]]:
    """(measured, really sent) of every mean that is more than one percent off."""
    spreads = {"ttft": found.ttft_s, "tpot": found.tpot_s, "itl": found.itl_s, "e2e": found.e2e_s}
    means = {name: spread.mean for name, spread in spreads.items() if spread is not None}
    assert means.keys() == sent.keys()
    return {
        name: (means[name], sent[name])
        for name in sent
        if means[name] != pytest.approx(sent[name], rel=ONE_PERCENT)
    }


@pytest.mark.parametrize("concurrency", [1, 64, pytest.param(256, marks=pytest.mark.slow)])
def test_what_the_server_sent_is_measured_within_one_percent(concurrency: int) -> None:
    """Against the server's own stamps of when it sent, not against when it meant to.

    What is left between the two is how late a busy machine wakes either process, the same whatever
    is sent: so each attempt sends more slowly than the one before. A wrong formula errs always.
    """
    for slower in SLOWER:
        plan = Plan(ttft=0.8 * slower, gap=0.08 * slower, tokens=TOKENS)
        with serving(plan) as target:
            found = derived(run(target, work(concurrency, concurrency)))
            sent = really(target, concurrency)
        assert (found.completed, found.failed) == (concurrency, 0)
        assert found.completion_tokens == concurrency * sum(TOKENS)
        assert found.accept == 3.0
        assert found.accepted_per_position == (1.0, 0.5, 0.5)
        missed = misses(found, sent)
        if not missed:
            return
    pytest.fail(f"measured and sent: {missed}")


def test_several_processes_measure_what_one_does() -> None:
    """Both against the server's stamps; every question is asked by one of them, and once."""
    for slower in SLOWER:
        plan = Plan(ttft=0.8 * slower, gap=0.08 * slower, tokens=TOKENS)
        with serving(plan) as target:
            measured = run(target, replace(work(16, 16), processes=2))
            sent = really(target, 16)
        found = derived(measured)
        assert measured.window.client_processes == 2
        assert sorted(t.prompt for t in measured.window.traces) == sorted(
            f"p{n}" for n in range(16)
        )
        assert (found.completed, found.failed, found.accept) == (16, 0, 3.0)
        missed = misses(found, sent)
        if not missed:
            return
    pytest.fail(f"measured and sent: {missed}")


@pytest.mark.parametrize("processes", [1, 2])
def test_an_open_loop_sends_each_request_at_its_time_whatever_is_answered(processes: int) -> None:
    """Answers take 0.6 s, requests come every 0.1 s: a closed loop would wait for them."""
    due = [n * 0.1 for n in range(12)]
    asked = [Question(f"p{n}", f"question {n}", 9, 0.0, n, at) for n, at in enumerate(due)]
    what = Work(asked[:2], asked, concurrency=0, timeout_s=60.0, processes=processes)
    with serving(Plan(ttft=0.3, gap=0.3, tokens=(1, 4))) as target:
        window = run(target, what).window
    assert [trace.error for trace in window.traces] == [None] * 12
    meant = sorted(trace.due for trace in window.traces if trace.due is not None)
    assert meant == pytest.approx(due, abs=1e-6)
    assert all(trace.due is not None and trace.sent >= trace.due for trace in window.traces)
    answered = min(trace.sent + (trace.last or 0) for trace in window.traces)
    assert sum(trace.sent < answered for trace in window.traces) > 1
    found = derived(Measured(window, {}, {}))
    assert found.sent_late_s is not None
    assert found.sent_late_s.n == 12


def test_an_open_loop_ends_early_when_the_connection_breaks() -> None:
    asked = [Question(f"p{n}", f"question {n}", 99, 0.0, n, n * 0.05) for n in range(400)]
    what = Work(asked[:1], asked, concurrency=0, timeout_s=60.0)
    with serving(Plan(ttft=0.01, gap=0.01, tokens=(1,) * 60, die_after=70)) as target:
        window = run(target, what).window
    assert window.lost
    assert 0 < len(window.traces) < 400


def test_gaps_between_chunks_of_different_size_are_told_apart() -> None:
    with serving(Plan(ttft=0.1, gap=0.08, tokens=(1, 1, 4, 1, 4))) as target:
        found = derived(run(target, work(1, 2)))
    assert found.itl_s is not None
    assert found.itl_s.n == 20
    assert found.itl_s.p50 == pytest.approx(0.02, rel=0.3)
    assert found.itl_s.p99 == pytest.approx(0.08, rel=0.3)


def test_warm_up_is_neither_in_the_window_nor_in_the_counters() -> None:
    with serving(Plan(ttft=0.02, gap=0.01, tokens=(1, 3))) as target:
        measured = run(target, work(2, 6))
    assert len(measured.window.traces) == 6
    assert derived(measured).completion_tokens == 24
    generated = 'ddtree:generation_tokens_total{model="mock"}'
    assert measured.counters_before[generated] == 2.0
    assert measured.counters_after[generated] == 26.0


def test_the_window_opens_at_the_first_send_and_closes_at_the_last_token() -> None:
    plan = Plan(ttft=0.1, gap=0.1, tokens=(1, 2, 2))
    with serving(plan) as target:
        window = run(target, work(2, 4)).window
    assert min(trace.sent for trace in window.traces) == 0.0
    assert window.length_s == pytest.approx(0.6, abs=0.2)  # two after two, 0.3 s each


def test_every_question_is_asked_once_and_every_answer_reported() -> None:
    told = []
    with serving(Plan(ttft=0.01, gap=0.002, tokens=(1, 2))) as target:
        measured = measure(target, work(7, 40), lambda: told.append(1))
    assert sorted(t.prompt for t in measured.window.traces) == sorted(f"p{n}" for n in range(40))
    assert len(told) == 47


def test_equal_answers_have_equal_digests_and_texts_stay_out_of_the_trace() -> None:
    with serving(Plan(ttft=0.01, gap=0.01)) as target:
        first, second = run(target, work(1, 3)).window, run(target, work(3, 3)).window
    by_prompt = {trace.prompt: trace.text_sha256 for trace in first.traces}
    assert len(set(by_prompt.values())) == 3
    assert by_prompt == {trace.prompt: trace.text_sha256 for trace in second.traces}
    assert "question 0-word1" in first.texts[0]


def test_an_engine_with_usage_only_at_the_end_is_measured_and_marked() -> None:
    plan = Plan(ttft=0.2, gap=0.05, tokens=(2, 2, 2, 2), usage="final-usage")
    with serving(plan) as target:
        measured = run(target, work(1, 2))
    assert {trace.tokens_from for trace in measured.window.traces} == {"final-usage"}
    found = derived(measured)
    assert found.completion_tokens == 16
    assert found.tpot_s is not None
    assert found.tpot_s.mean == pytest.approx(0.15 / 7, rel=0.2)


def test_a_server_killed_in_the_middle_ends_the_cell_quickly() -> None:
    plan = Plan(ttft=0.05, gap=0.05, tokens=(1,) * 200, die_after=60)
    with serving(plan) as target:
        window = run(target, work(4, 400)).window
    assert window.lost
    assert not window.timed_out
    assert window.length_s < 5.0
    errors = [trace.error for trace in window.traces if trace.error]
    assert 4 <= len(errors) <= 8
    assert all(error.startswith(("connection lost", "the stream ended")) for error in errors)


def test_a_cell_that_takes_too_long_is_stopped_and_keeps_what_it_heard() -> None:
    with serving(Plan(ttft=0.05, gap=0.1, tokens=(1,) * 100)) as target:
        window = run(target, work(2, 10, timeout_s=0.6)).window
    assert window.timed_out
    assert not window.lost
    assert [trace.error for trace in window.traces] == ["unfinished when the cell ended"] * 2
    assert all(len(trace.chunks) >= 3 for trace in window.traces)


def test_refused_requests_are_failures_with_the_servers_words() -> None:
    with serving(Plan(ttft=0.01, gap=0.01, fail_from=3)) as target:
        measured = run(target, work(1, 4))
    errors = [trace.error for trace in measured.window.traces]
    assert errors[:2] == [None, None]
    assert errors[2] == 'HTTP 500: {"error": {"message": "planted"}}'
    assert (derived(measured).completed, derived(measured).failed) == (2, 2)


def test_a_service_that_is_not_there_is_told_at_once() -> None:
    nobody = Target(url="http://127.0.0.1:9", model="m")
    window = run(nobody, work(2, 6)).window
    assert window.lost
    assert window.traces[0].error is not None
    assert window.traces[0].error.startswith("connection lost: ")
    assert derived(Measured(window, {}, {})).completed == 0

"""Prefill: lines and graphs change no answer, and warming up leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.core.sequence import Request, Sampling
from ddtree.engine import prefill as subject
from ddtree.engine import prefiller
from ddtree.engine.lines import WIDTH, Form, captured_forms
from ddtree.engine.loop import Engine
from ddtree.engine.prefill import First, fixed_seconds, prefill, warm
from ddtree.engine.prefiller import Prefiller
from ddtree.engine.runner import Runner
from ddtree.engine.scheduler import Chunk
from ddtree.engine.stepper import Launch, Stepper, Ticket
from ddtree.engine.upload import download
from tests.runtime.engine.asking import ask, requests, running, tokens_of
from tests.runtime.engine.asking import config as configured
from tests.runtime.engine.replayed import Recorder
from tests.runtime.tiny import tiny_engine


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lines of 16 tokens, and all chunks of a step in one forward, as on CUDA: their counts."""
    counts: list[int] = []

    def together(self: Runner, chunks: list[Chunk]) -> list[First]:
        counts.append(len(chunks))
        first = prefill(chunks, self.prefiller) if chunks else None
        return [] if first is None else [first]

    monkeypatch.setattr(prefiller, "line_width", lambda *_: WIDTH)
    monkeypatch.setattr(Runner, "prefill", together)
    return counts


@contextmanager
def replaying(
    wanted: EngineConfig, lag: Literal[0, 1], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Engine, Recorder]]:
    """An engine whose prefills are replayed, in memory that every step overwrites."""
    engine, graphs = tiny_engine(wanted, lag=lag, start=False), Recorder()
    launch = Stepper.launch

    def overwriting(self: Stepper, asked: Launch) -> Ticket:
        graphs.spoil()
        return launch(self, asked)

    monkeypatch.setattr(Stepper, "launch", overwriting)
    # on CUDA the host's numbers are a copy, which is made before the next launch
    monkeypatch.setattr(subject, "download", lambda values: download(values.clone()))
    capacity = engine._scheduler.capacity
    forms = captured_forms(capacity.prefill_chunk, capacity.rows, pages=48)
    with torch.inference_mode():
        engine._runner.prefiller.capture(forms, graphs)  # type: ignore[arg-type]
    engine.start()
    try:
        yield engine, graphs
        engine.stop(drain=True, timeout_s=30)
        engine.check_integrity()
    finally:
        engine.stop(drain=False, timeout_s=5)


def test_lines_change_no_answer(narrow: list[int]) -> None:
    wanted = replace(configured("ddtree", 8, "tiny", kv_tokens=120), prefill_chunk=40)
    found = tokens_of(wanted, requests())
    assert max(narrow) > 1
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(prefiller, "line_width", lambda longest, _: longest)
        assert tokens_of(wanted, requests()) == found


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(0.9, top_p=0.9, top_k=6, min_p=0.02, seed=5)]
)
@pytest.mark.parametrize(("chunk", "kv_tokens"), [(7, None), (40, 120)])
def test_replayed_prefills_change_no_answer(
    lag: Literal[0, 1],
    sampling: Sampling,
    chunk: int,
    kv_tokens: int | None,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    asked = [replace(one, sampling=sampling, logprobs=2) for one in requests(12)]
    wanted = replace(configured("ddtree", 8, "tiny", kv_tokens=kv_tokens), prefill_chunk=chunk)
    with running(wanted) as engine:
        plain = ask(engine, asked)
    counts: list[int] = request.getfixturevalue("narrow")
    with replaying(wanted, lag, monkeypatch) as (engine, graphs):
        answers = ask(engine, asked)
    assert graphs.replays == sum(count > 0 for count in counts)
    assert [a.tokens for a in answers] == [a.tokens for a in plain]
    for answer, other in zip(answers, plain, strict=True):
        mine, others = answer.outputs[0].logprobs, other.outputs[0].logprobs
        assert mine is not None
        assert others is not None
        assert mine[0].token == others[0].token
        assert mine[0].logprob == pytest.approx(others[0].logprob)


def test_mixed_sampling_in_one_replay(narrow: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [Sampling(), Sampling(1.0, seed=3), Sampling(0.8, top_p=0.7, seed=4)]
    asked = [Request(str(i), one.prompt, 9, kinds[i % 3]) for i, one in enumerate(requests())]
    wanted = replace(configured("ddtree", 8, "tiny"), prefill_chunk=60)
    with replaying(wanted, 1, monkeypatch) as (engine, _):
        answers = [answer.tokens for answer in ask(engine, asked)]
    assert max(narrow) > 2
    assert answers == [tokens_of(wanted, [one])[0] for one in asked]


def test_what_no_graph_holds_is_done_eagerly(
    narrow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = replace(configured("ddtree", 8, "tiny"), prefill_chunk=40)
    monkeypatch.setattr(
        "tests.runtime.engine.test_prefill.captured_forms", lambda *_, **__: [Form(1, 1, 48)]
    )
    with replaying(wanted, 0, monkeypatch) as (engine, graphs):
        found = [answer.tokens for answer in ask(engine, requests())]
    assert 0 < graphs.replays < len(narrow)
    assert found == tokens_of(wanted, requests())


def test_warming_up_touches_no_page_that_a_sequence_can_have() -> None:
    with running(configured("ddtree", 8, "tiny")) as engine:
        models, pools = engine._runner.models, engine._runner.pools
        assert pools.drafter is not None
        before = [pool.kv.clone() for pool in (pools.target, pools.drafter)]
        with torch.inference_mode():
            warm(engine._runner.prefiller, most=40)
            eager = Prefiller(models, pools)
            eager.capture([Form(5, 3, 9)], Recorder())  # type: ignore[arg-type]
        for pool, kv in zip((pools.target, pools.drafter), before, strict=True):
            assert torch.equal(pool.kv[:, :, pools.page_size :], kv[:, :, pools.page_size :])
            assert not torch.equal(pool.kv, kv)
        assert tokens_of(configured(), requests()) == [a.tokens for a in ask(engine, requests())]


def test_only_what_no_graph_holds_is_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[int] = []
    monkeypatch.setattr(subject, "_rehearse", lambda count, *_: rehearsed.append(count))
    with running(configured("ddtree", 8, "tiny")) as engine:
        one = Prefiller(engine._runner.models, engine._runner.pools)
    with torch.inference_mode():
        one.capture([Form(2, 1, 9), Form(4, 2, 9)], Recorder())  # type: ignore[arg-type]
    warm(one, most=4 * WIDTH)
    assert rehearsed == []
    warm(one, most=4 * WIDTH + 1)
    assert rehearsed == [65, 65]


def test_on_a_cpu_a_prefill_costs_nothing_beyond_its_tokens() -> None:
    with running(configured("ddtree", 8, "tiny")) as engine:
        assert fixed_seconds(engine._runner.prefiller) == 0.0


def test_the_price_of_a_prefill_is_that_of_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(configured("ddtree", 8, "tiny")) as engine:
        one = Prefiller(engine._runner.models, engine._runner.pools)
        took = iter([9.0, 0.3, 0.1, 0.2, 0.3])  # the first compiles
        clock = [0.0]

        def rehearse(count: int, batch: int, *_: object) -> None:
            assert (count, batch) == (16, 1)
            clock[0] += next(took)

        one.device = torch.device("cuda")
        monkeypatch.setattr(subject, "_rehearse", rehearse)
        monkeypatch.setattr("ddtree.engine.prefill.time.perf_counter", lambda: clock[0])
        assert fixed_seconds(one) == pytest.approx(0.3)
        monkeypatch.undo()

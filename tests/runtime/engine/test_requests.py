"""How requests end, and what a bad one does to the others: nothing."""

from __future__ import annotations

import threading
from typing import Literal

import pytest
import torch

from ddtree.config import Mode
from ddtree.core.sequence import Finish, Output, Request
from ddtree.engine.errors import RequestError
from tests.runtime.engine.asking import PROMPTS, Answer, ask, config, requests, running, tokens_of
from tests.runtime.tiny import VOCAB, TinyTarget, tiny_engine


@pytest.fixture(scope="module")
def greedy() -> list[list[int]]:
    return tokens_of(config(), requests())


def test_a_stop_token_ends_the_answer_in_the_middle_of_a_step(greedy: list[list[int]]) -> None:
    stop = greedy[0][9]
    request = Request("0", PROMPTS[0], 40, stop_token_ids=frozenset({stop}))
    with running(config("ddtree", 16, "tiny")) as engine:
        (answer,) = ask(engine, [request])
    assert answer.tokens == greedy[0][: greedy[0].index(stop) + 1]
    assert answer.outputs[-1].finish is Finish.STOP


@pytest.mark.parametrize("lag", [0, 1])
def test_an_aborted_request_frees_its_pages_and_the_others_go_on(
    greedy: list[list[int]], lag: Literal[0, 1]
) -> None:
    with running(config("ddtree", 4, "tiny", context_length=4000), lag=lag) as engine:
        endless, other = Answer(), Answer()
        engine.submit(Request("endless", PROMPTS[0], 3500), endless)
        engine.submit(Request("other", PROMPTS[1], 40), other)
        other.wait()
        engine.abort("endless")
        assert endless.wait().finish is Finish.ABORT
    assert other.tokens == greedy[1]


def test_stopping_without_draining_aborts_what_runs() -> None:
    engine = tiny_engine(config(context_length=4000))
    answer = Answer()
    engine.submit(Request("0", PROMPTS[0], 3500), answer)
    engine.stop(drain=False, timeout_s=10)
    assert answer.wait().finish is Finish.ABORT
    assert not engine.alive
    with pytest.raises(RequestError, match="shutting down"):
        engine.submit(Request("1", PROMPTS[0], 5), answer)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("0", (), 5), "empty"),
        (Request("0", (1,) * 160, 5), "context holds 160"),
        (Request("0", (1, VOCAB), 5), "outside"),
        (Request("0", (1,), 0), "max_tokens"),
    ],
)
def test_a_request_that_can_never_be_served_is_refused(request_: Request, message: str) -> None:
    with running(config()) as engine, pytest.raises(RequestError, match=message):
        engine.submit(request_, Answer())


def test_a_prompt_larger_than_the_cache_is_refused() -> None:
    with running(config(kv_tokens=32)) as engine, pytest.raises(RequestError, match="cache"):
        engine.submit(Request("0", (1,) * 40, 5), Answer())


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize(("mode", "budget"), [("ar", 4), ("ddtree", 8)])
def test_an_answer_that_outgrows_the_cache_ends_there(
    greedy: list[list[int]], mode: Mode, budget: int, lag: Literal[0, 1]
) -> None:
    wanted = config(mode, budget, None if mode == "ar" else "tiny", kv_tokens=48)
    with running(wanted, lag=lag) as engine:
        (answer,) = ask(engine, [Request("0", PROMPTS[1], 100)])
    assert answer.outputs[-1].finish is Finish.LENGTH
    assert 20 <= len(PROMPTS[1]) + len(answer.tokens) <= 48
    assert answer.tokens == greedy[1][: len(answer.tokens)]


@pytest.mark.parametrize("lag", [0, 1])
def test_nan_logits_end_that_request_alone_and_its_pages_serve_the_next(
    monkeypatch: pytest.MonkeyPatch, greedy: list[list[int]], lag: Literal[0, 1]
) -> None:
    honest = TinyTarget.embed

    def poisoned(self: TinyTarget, tokens: torch.Tensor) -> torch.Tensor:
        out = honest(self, tokens)
        return out.where((tokens != 0).unsqueeze(-1), torch.nan)

    monkeypatch.setattr(TinyTarget, "embed", poisoned)
    assert 0 not in greedy[1][:20]
    later = [Request(f"later-{i}", PROMPTS[1], 20) for i in range(4)]
    with running(config("ar", kv_tokens=80), lag=lag) as engine:
        bad, good = ask(engine, [Request("bad", (1, 0, 3), 5), Request("good", PROMPTS[0], 8)])
        assert [answer.tokens for answer in ask(engine, later)] == [greedy[1][:20]] * 4
    assert bad.outputs[-1].finish is Finish.ERROR
    assert "not finite" in (bad.outputs[-1].error or "")
    assert 0 not in greedy[0][:8]
    assert good.tokens == greedy[0][:8]


def test_a_listener_of_steps_hears_after_the_outputs_of_each(greedy: list[list[int]]) -> None:
    engine, heard = tiny_engine(config(), start=False), list[str]()
    engine.on_step = lambda: heard.append("step") if heard[-1:] != ["step"] else None
    done = threading.Event()

    def on_output(output: Output) -> None:
        heard.append(output.request_id)
        if output.finish is not None and output.request_id == "b":
            done.set()

    for name in "ab":
        engine.submit(Request(name, PROMPTS[0], 5 if name == "a" else 6), on_output)
    engine.start()
    assert done.wait(30)
    engine.stop(drain=True, timeout_s=5)
    assert heard == [*["a", "b", "step"] * 5, "b", "step"]


def test_a_broken_model_tells_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: TinyTarget, hidden: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("the device fell off the bus")

    monkeypatch.setattr(TinyTarget, "raw_logits", broken)
    engine = tiny_engine(config())
    answer = Answer()
    engine.submit(Request("0", PROMPTS[0], 5), answer)
    assert "fell off the bus" in (answer.wait().error or "")
    engine.stop(drain=True, timeout_s=5)
    assert engine.failure is not None

"""The engine on the tiny pair: every mode answers as autoregressive decoding does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
import torch
from scipy import stats

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Finish, Output, Request, Sampling
from ddtree.engine.budget import BudgetChooser, Outlook
from ddtree.engine.errors import RequestError
from ddtree.engine.loop import Engine
from tests.runtime.tiny import VOCAB, TinyTarget, tiny_engine

PROMPTS = [tuple(1 + (7 * i + j * j) % 10 for j in range(3 + 5 * i)) for i in range(6)]


def config(
    mode: Mode = "ar",
    budget: int = 4,
    drafter: str | None = None,
    *,
    context_length: int = 160,
    max_running_requests: int = 4,
    kv_tokens: int | None = None,
    adaptive: bool = False,
) -> EngineConfig:
    return EngineConfig(
        model="tiny",
        mode=mode,
        budget=budget,
        drafter=drafter,
        context_length=context_length,
        max_running_requests=max_running_requests,
        kv_tokens=kv_tokens,
        adaptive=adaptive,
        page_size=4,
        prefill_chunk=7,
    )


@contextmanager
def running(wanted: EngineConfig, lag: Literal[0, 1] = 0) -> Iterator[Engine]:
    engine = tiny_engine(wanted, lag=lag)
    try:
        yield engine
        engine.stop(drain=True, timeout_s=30)
        assert engine.failure is None
        engine.check_integrity()
        assert engine.stats().kv_used == 0
    finally:
        engine.stop(drain=False, timeout_s=5)


class Answer:
    """Collects the outputs of one request."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.outputs: list[Output] = []
        self.done = threading.Event()

    def __call__(self, output: Output) -> None:
        self.outputs.append(output)
        self.tokens.extend(output.tokens)
        if output.finish is not None:
            self.done.set()

    def wait(self) -> Output:
        assert self.done.wait(60), "no answer"
        return self.outputs[-1]


def ask(engine: Engine, requests: list[Request]) -> list[Answer]:
    answers = [Answer() for _ in requests]
    for request, answer in zip(requests, answers, strict=True):
        engine.submit(request, answer)
    for answer in answers:
        answer.wait()
    return answers


def requests(max_tokens: int = 40, sampling: Sampling | None = None) -> list[Request]:
    return [
        Request(str(i), prompt, max_tokens, sampling or Sampling())
        for i, prompt in enumerate(PROMPTS)
    ]


def tokens_of(wanted: EngineConfig, asked: list[Request]) -> list[list[int]]:
    with running(wanted) as engine:
        return [answer.tokens for answer in ask(engine, asked)]


def plain_greedy(prompt: tuple[int, ...], count: int) -> list[int]:
    """Greedy decoding by recomputing everything, with no cache and no engine."""
    target, tokens = TinyTarget(), list(prompt)
    for _ in range(count):
        x = target.embed(torch.tensor(tokens))
        x = x + torch.sin(torch.arange(len(tokens)).double()).unsqueeze(-1) / 4
        for layer in target.layers:
            k, v = layer.keys_values(x)
            q = (x @ layer.q).reshape(len(tokens), 4, 4)
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            scores = torch.einsum("ihd,jhd->hij", q, k) / 2
            scores = scores.masked_fill(~torch.ones(len(tokens), len(tokens)).tril().bool(), -1e30)
            mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).flatten(1)
            x = torch.tanh(x + mixed @ layer.o)
        tokens.append(int((x[-1] @ target.embedding.T).argmax()))
    return tokens[len(prompt) :]


@pytest.fixture(scope="module")
def greedy() -> list[list[int]]:
    return tokens_of(config(), requests())


def test_autoregressive_answers_equal_decoding_without_a_cache(greedy: list[list[int]]) -> None:
    assert greedy == [plain_greedy(prompt, 40) for prompt in PROMPTS]


SPECULATIVE = [
    ("chain", 4, "tiny"),
    *[("ddtree", budget, "tiny") for budget in (1, 2, 4, 8, 16, 32, 64)],
    ("chain", 5, "prompt-lookup"),
    *[("ddtree", budget, "prompt-lookup") for budget in (1, 8, 20)],
]


@pytest.mark.parametrize(("mode", "budget", "drafter"), SPECULATIVE, ids=str)
def test_greedy_speculation_is_lossless(
    greedy: list[list[int]], mode: Mode, budget: int, drafter: str
) -> None:
    with running(config(mode, budget, drafter)) as engine:
        answers = ask(engine, requests())
        counters = engine.stats().speculation
    assert [answer.tokens for answer in answers] == greedy
    assert counters.accepted > 0
    # every token is the prefill's first, a bonus, or an accepted draft
    assert sum(map(len, greedy)) == len(PROMPTS) + counters.verify_steps + counters.accepted
    assert counters.accepted == sum(counters.accepted_per_position)


@pytest.mark.parametrize(("mode", "budget"), [("ar", 4), ("chain", 4), ("ddtree", 8)])
@pytest.mark.parametrize("kv_tokens", [None, 150])
def test_a_host_one_step_behind_the_device_changes_no_token(
    greedy: list[list[int]], mode: Mode, budget: int, kv_tokens: int | None
) -> None:
    wanted = config(mode, budget, None if mode == "ar" else "tiny", kv_tokens=kv_tokens)
    with running(wanted, lag=1) as engine:
        answers = ask(engine, requests())
        assert (engine.stats().preemptions > 0) == (kv_tokens is not None)
    assert [answer.tokens for answer in answers] == greedy


@pytest.mark.parametrize("lag", [0, 1])
def test_an_adaptive_budget_changes_speed_but_no_token(
    greedy: list[list[int]], lag: Literal[0, 1], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []

    def restless(self: BudgetChooser, outlooks: list[Outlook]) -> int:
        chosen.append(self.times.budgets[len(chosen) % len(self.times.budgets)])
        return chosen[-1]

    monkeypatch.setattr(BudgetChooser, "choose", restless)
    with running(config("ddtree", 12, "tiny", adaptive=True), lag=lag) as engine:
        answers = ask(engine, requests())
    assert set(chosen) == {0, 4, 8, 12}
    assert [answer.tokens for answer in answers] == greedy


@pytest.mark.parametrize(("mode", "budget"), [("chain", 4), ("ddtree", 3), ("ddtree", 20)])
def test_a_seed_gives_the_same_tokens_at_every_budget(mode: Mode, budget: int) -> None:
    hot = requests(30, Sampling(temperature=0.8, top_p=0.9, seed=11))
    assert tokens_of(config(mode, budget, "tiny"), hot) == tokens_of(config(), hot)


def test_sampled_trees_have_the_targets_distribution() -> None:
    """Third answer token of one prompt over many seeds, against exact enumeration."""
    prompt, temperature = PROMPTS[1], 1.3
    asked = [
        Request(str(seed), prompt, 3, Sampling(temperature=temperature, seed=seed))
        for seed in range(2000)
    ]
    drawn = tokens_of(config("ddtree", 8, "tiny", max_running_requests=64), asked)
    expected = exact_third_token(prompt, temperature)
    counts = torch.bincount(torch.tensor([tokens[2] for tokens in drawn]), minlength=VOCAB)
    assert stats.chisquare(counts.numpy(), (expected * len(drawn)).numpy()).pvalue > 1e-3


def exact_third_token(prompt: tuple[int, ...], temperature: float) -> torch.Tensor:
    with running(config(max_running_requests=64)) as engine:

        def distribution(context: tuple[int, ...]) -> torch.Tensor:
            (answer,) = ask(engine, [Request("exact", context, 1, logprobs=VOCAB)])
            logprobs = answer.outputs[0].logprobs
            assert logprobs is not None
            ordered = torch.zeros(VOCAB, dtype=torch.float64)
            for token, logprob in logprobs[0].top:
                ordered[token] = logprob
            return torch.softmax(ordered / temperature, -1)

        total = torch.zeros(VOCAB, dtype=torch.float64)
        first = distribution(prompt)
        for a in range(VOCAB):
            second = distribution((*prompt, a))
            for b in range(VOCAB):
                total += first[a] * second[b] * distribution((*prompt, a, b))
        return total


def test_a_preempted_request_loses_nothing(greedy: list[list[int]]) -> None:
    tight = config("ddtree", 8, "tiny", kv_tokens=120)
    with running(tight) as engine:
        answers = ask(engine, requests())
        assert engine.stats().preemptions > 0
    assert [answer.tokens for answer in answers] == greedy


def test_logprobs_are_the_same_with_and_without_speculation() -> None:
    asked = [Request("0", PROMPTS[2], 20, logprobs=3)]

    def logprobs(wanted: EngineConfig) -> list[tuple[int, float]]:
        with running(wanted) as engine:
            (answer,) = ask(engine, asked)
        seen = [entry for output in answer.outputs for entry in output.logprobs or ()]
        assert all(entry.top[0][1] >= entry.logprob and len(entry.top) == 3 for entry in seen)
        return [(entry.token, entry.logprob) for entry in seen]

    plain, tree = logprobs(config()), logprobs(config("ddtree", 8, "tiny"))
    assert [token for token, _ in plain] == [token for token, _ in tree]
    assert [value for _, value in plain] == pytest.approx([value for _, value in tree], abs=1e-5)


def test_a_stop_token_ends_the_answer_in_the_middle_of_a_step(greedy: list[list[int]]) -> None:
    stop = greedy[0][9]
    request = Request("0", PROMPTS[0], 40, stop_token_ids=frozenset({stop}))
    with running(config("ddtree", 16, "tiny")) as engine:
        (answer,) = ask(engine, [request])
    assert answer.tokens == greedy[0][: greedy[0].index(stop) + 1]
    assert answer.outputs[-1].finish is Finish.STOP


def test_an_aborted_request_frees_its_pages_and_the_others_go_on(greedy: list[list[int]]) -> None:
    with running(config("ddtree", 4, "tiny", context_length=4000)) as engine:
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


def test_nan_logits_end_that_request_alone(
    monkeypatch: pytest.MonkeyPatch, greedy: list[list[int]]
) -> None:
    honest = TinyTarget.embed

    def poisoned(self: TinyTarget, tokens: torch.Tensor) -> torch.Tensor:
        out = honest(self, tokens)
        return out.where((tokens != 0).unsqueeze(-1), torch.nan)

    monkeypatch.setattr(TinyTarget, "embed", poisoned)
    with running(config("ar")) as engine:
        bad, good = ask(engine, [Request("bad", (1, 0, 3), 5), Request("good", PROMPTS[0], 8)])
    assert bad.outputs[-1].finish is Finish.ERROR
    assert "not finite" in (bad.outputs[-1].error or "")
    assert 0 not in greedy[0][:8]
    assert good.tokens == greedy[0][:8]


def test_a_broken_model_tells_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: TinyTarget, hidden: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("the device fell off the bus")

    monkeypatch.setattr(TinyTarget, "logits", broken)
    engine = tiny_engine(config())
    answer = Answer()
    engine.submit(Request("0", PROMPTS[0], 5), answer)
    assert "fell off the bus" in (answer.wait().error or "")
    engine.stop(drain=True, timeout_s=5)
    assert engine.failure is not None

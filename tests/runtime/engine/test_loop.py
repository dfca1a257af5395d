"""The engine on the tiny pair: every mode answers as autoregressive decoding does."""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

import pytest
import scipy
import torch

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Request, Sampling
from ddtree.engine.budget import BudgetChooser
from ddtree.engine.prefill import First, prefill
from ddtree.engine.runner import Runner
from ddtree.engine.scheduler import Chunk
from tests.runtime.engine.asking import PROMPTS, ask, config, requests, running, tokens_of
from tests.runtime.tiny import VOCAB, TinyTarget


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


def test_prompts_prefilled_together_answer_as_they_do_alone(
    greedy: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def together(self: Runner, chunks: list[Chunk]) -> list[First]:
        sizes.append(len(chunks))
        first = prefill(chunks, self.prefiller) if chunks else None
        return [] if first is None else [first]

    monkeypatch.setattr(Runner, "prefill", together)
    with running(config("ddtree", 8, "tiny", kv_tokens=120)) as engine:
        answers = ask(engine, requests())
        assert engine.stats().preemptions > 0
    assert max(sizes) > 1
    assert [answer.tokens for answer in answers] == greedy


@pytest.mark.parametrize("lag", [0, 1])
def test_an_adaptive_budget_changes_speed_but_no_token(
    greedy: list[list[int]], lag: Literal[0, 1], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []

    def restless(self: BudgetChooser, rows: list[int]) -> int:
        assert len(rows) == len(set(rows))
        chosen.append(self.budgets[len(chosen) % len(self.budgets)])
        return chosen[-1]

    monkeypatch.setattr(BudgetChooser, "choose", restless)
    with running(config("ddtree", 12, "tiny", adaptive=True), lag=lag) as engine:
        answers = ask(engine, requests())
        counted = engine.stats().steps
    assert set(chosen) == {0, 4, 8, 12}
    assert counted == Counter(chosen)
    assert [answer.tokens for answer in answers] == greedy


@pytest.mark.parametrize(("mode", "budget"), [("chain", 4), ("ddtree", 3), ("ddtree", 20)])
def test_a_seed_gives_the_same_tokens_at_every_budget(mode: Mode, budget: int) -> None:
    hot = requests(30, Sampling(temperature=0.8, top_p=0.9, top_k=5, min_p=0.05, seed=11))
    assert tokens_of(config(mode, budget, "tiny"), hot) == tokens_of(config(), hot)


def test_an_adaptive_engine_learns_what_its_steps_take(greedy: list[list[int]]) -> None:
    with running(config("ddtree", 12, "tiny", adaptive=True), lag=1) as engine:
        answers = ask(engine, requests())
        chooser = engine._runner.chooser
    assert [answer.tokens for answer in answers] == greedy
    assert chooser is not None
    assert chooser.times.served.sum() > 10
    assert 0 < chooser.times.at(1)[0].min() < 1


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"min_p": 1.0}, {"top_p": 1e-9}], ids=str)
def test_one_token_left_to_choose_from_is_the_greedy_one(
    greedy: list[list[int]], narrow: dict[str, float]
) -> None:
    sampling = Sampling(temperature=1.5, seed=5, **narrow)  # type: ignore[arg-type]
    assert tokens_of(config("ddtree", 8, "tiny"), requests(40, sampling)) == greedy


def test_top_k_and_min_p_are_each_rows_own() -> None:
    """Narrow and free rows in one batch: every token is among those its own row allows."""
    asked = [
        Request("k", PROMPTS[0], 60, Sampling(1.5, top_k=2, seed=1), logprobs=VOCAB),
        Request("p", PROMPTS[1], 60, Sampling(1.5, min_p=0.3, seed=2), logprobs=VOCAB),
        Request("free", PROMPTS[2], 60, Sampling(1.5, seed=3), logprobs=VOCAB),
    ]
    with running(config("ddtree", 8, "tiny")) as engine:
        answers = ask(engine, asked)
    ranks, shares = list[list[int]](), list[list[float]]()
    for answer in answers:
        entries = [entry for output in answer.outputs for entry in output.logprobs or ()]
        ranks.append([[t for t, _ in entry.top].index(entry.token) for entry in entries])
        shares.append([math.exp((e.logprob - e.top[0][1]) / 1.5) for e in entries])
    assert set(ranks[0]) == {0, 1}
    assert 0.3 - 1e-6 <= min(shares[1]) < 0.9
    assert max(ranks[2]) > 2 and min(shares[2]) < 0.3


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
    assert scipy.stats.chisquare(counts.numpy(), (expected * len(drawn)).numpy()).pvalue > 1e-3


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

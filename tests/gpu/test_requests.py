"""What a request may ask of an engine, on a device: whatever it is, no token changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtree.config import EngineConfig
from ddtree.core.sequence import Request, Sampling, Speculation, Speculative
from ddtree.engine.geometry import LADDER
from ddtree.speculate.seam import Models
from tests.gpu import engine as shared
from tests.gpu.engine import VOCAB, running
from tests.runtime.engine.asking import ask

pytestmark = pytest.mark.gpu
CONFIG = EngineConfig(
    model="random",
    mode="ddtree",
    drafter="random",
    budget=16,
    context_length=320,
    max_running_requests=8,
)
PLAIN = replace(CONFIG, mode="ar", graphs="off", prefix_cache=False)
ODD = (1, 2, 15, 16, 17, 31, 33, 47, 63, 65, 95, 127, 129, 250)  # tokens of a prompt


def prompt(length: int, offset: int = 0) -> tuple[int, ...]:
    return tuple((offset + 5 * j + j * j) % VOCAB for j in range(length))


def tokens_of(config: EngineConfig, models: Models, requests: list[Request]) -> list[list[int]]:
    with running(config, models) as engine:
        return [answer.tokens for answer in ask(engine, requests)]


@pytest.fixture(scope="module")
def models() -> Models:
    return shared.small_models(shared.DEVICE)


def test_a_prompt_that_is_found_is_answered_like_a_fresh_one(models: Models) -> None:
    beginning = prompt(70)
    alike = [Request(str(i), (*beginning, *prompt(1 + 7 * i, i)), 40) for i in range(6)]
    fresh = tokens_of(PLAIN, models, alike)
    with running(CONFIG, models) as engine:
        first = ask(engine, alike)
        again = ask(engine, [replace(one, id=f"again-{one.id}") for one in alike])
        reused = engine.stats().reused_tokens
    assert [answer.tokens for answer in first] == fresh
    assert [answer.tokens for answer in again] == fresh
    found = [answer.outputs[-1].reused for answer in again]
    assert all(tokens >= 64 for tokens in found)
    assert sum(found) <= reused
    # the drafter's context is shared with the pages: the same trees, so the same steps
    assert [a.outputs[-1].speculation for a in again] == [a.outputs[-1].speculation for a in first]


def test_one_batch_mixes_settings_of_speculation(models: Models) -> None:
    settings = {
        Speculative(): 16,
        Speculative("ar"): 0,
        Speculative("chain"): 15,
        Speculative("chain", 2): 2,
        Speculative("ddtree", 3): 3,
        Speculative("ddtree", 11): 11,
        Speculative(budget=6): 6,
        Speculative("chain", 15): 15,
    }
    # by chance: greedily a random model may run in a circle that no draft meets
    draws = [Sampling(temperature=1.0, seed=i) for i in range(len(settings))]
    asked = [
        Request(str(i), prompt(9 + 5 * i, i), 50, draw, speculative=setting)
        for i, (setting, draw) in enumerate(zip(settings, draws, strict=True))
    ]
    with running(CONFIG, models) as engine:
        answers = ask(engine, asked)
        whole = engine.stats().speculation
    plain = [replace(one, speculative=Speculative()) for one in asked]
    assert [answer.tokens for answer in answers] == tokens_of(PLAIN, models, plain)
    counted = [answer.outputs[-1].speculation or Speculation() for answer in answers]
    for one, most in zip(counted, settings.values(), strict=True):
        assert one.drafted <= most * one.verify_steps
    assert counted[1] == Speculation()
    assert sum(one.drafted for one in counted) == whole.drafted
    assert whole.accepted > 0


def test_narrowed_draws_are_the_same_in_trees_in_graphs_and_beside_others(models: Models) -> None:
    samplings = [
        Sampling(temperature=0.9, top_k=5, seed=1),
        Sampling(temperature=1.2, min_p=0.2, seed=2),
        Sampling(temperature=0.8, top_p=0.8, top_k=20, min_p=0.05, seed=3),
        Sampling(temperature=1.0, seed=4),
        Sampling(),
    ]
    asked = [Request(str(i), prompt(20 + i), 60, one) for i, one in enumerate(samplings)]
    alone = [tokens_of(PLAIN, models, [one])[0] for one in asked]
    assert tokens_of(CONFIG, models, asked) == alone
    assert tokens_of(replace(CONFIG, graphs="off"), models, asked) == alone
    assert len({tuple(one) for one in alone}) == len(alone)


def test_an_adaptive_budget_learns_from_what_is_served_and_loses_nothing(models: Models) -> None:
    asked = [Request(str(i), prompt(5 + 3 * i, i), 60) for i in range(24)]
    wanted = tokens_of(PLAIN, models, asked)
    with running(replace(CONFIG, adaptive=True, budget=32), models) as engine:
        chooser = engine._runner.chooser
        assert chooser is not None
        seeded = [chooser.times.at(batch)[0].copy() for batch in (1, 8)]
        answers = [answer.tokens for answer in ask(engine, asked)]
        answers += [ask(engine, [replace(one, id=f"x{one.id}")])[0].tokens for one in asked[:3]]
        learnt = [chooser.times.at(batch)[0] for batch in (1, 8)]
    assert answers == [*wanted, *wanted[:3]]
    assert chooser.budgets == [0, *(b for b in LADDER if b < 32), 32]
    assert chooser.times.served.sum() > 50  # steps
    for before, after in zip(seeded, learnt, strict=True):
        assert (after > 0).all()
        assert (before != after).any()


@pytest.mark.parametrize("chunk", [512, 48, 17])
def test_a_prompt_of_any_length_is_padded_without_a_trace(models: Models, chunk: int) -> None:
    asked = [Request(str(length), prompt(length), 24) for length in ODD]
    alone = [tokens_of(PLAIN, models, [one])[0] for one in asked[::3]]
    together = tokens_of(replace(CONFIG, prefill_chunk=chunk), models, asked)
    assert together[::3] == alone
    assert together == tokens_of(PLAIN, models, asked)

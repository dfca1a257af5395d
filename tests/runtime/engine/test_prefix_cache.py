"""Prompts that begin alike share what is cached of them, and no token changes."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from ddtree.config import Mode
from ddtree.core.sequence import Finish, Request, Sampling
from tests.runtime.engine.asking import PROMPTS, ask, config, running, tokens_of
from tests.runtime.tiny import TinyTarget

BEGINNING = PROMPTS[5]  # 28 tokens, 7 blocks
ALIKE = [
    *(Request(f"{i}", (*BEGINNING, *PROMPTS[i]), 30) for i in range(5)),
    *(Request(f"again-{i}", (*BEGINNING, *PROMPTS[i]), 30) for i in range(5)),
    *(Request(f"hot-{i}", BEGINNING, 30, Sampling(temperature=0.9, seed=i)) for i in range(3)),
]


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    return tokens_of(config(prefix_cache=False), ALIKE)


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("kv_tokens", [None, 120])
@pytest.mark.parametrize(("mode", "budget"), [("ar", 4), ("chain", 4), ("ddtree", 8)])
def test_answers_are_the_same_with_and_without_the_cache(
    alone: list[list[int]], mode: Mode, budget: int, kv_tokens: int | None, lag: Literal[0, 1]
) -> None:
    wanted = config(mode, budget, None if mode == "ar" else "tiny", kv_tokens=kv_tokens)
    with running(wanted, lag=lag) as engine:
        answers = ask(engine, ALIKE)
        stats = engine.stats()
        assert (stats.preemptions > 0) == (kv_tokens is not None)
    assert [answer.tokens for answer in answers] == alone
    found = [answer.outputs[-1].reused for answer in answers]
    assert sum(found) == stats.reused_tokens
    assert sum(found) >= 28 * 6


def test_a_draft_after_a_found_prompt_is_as_good_as_after_its_own_prefill() -> None:
    """The drafter's context is shared with the pages: the same trees, the same steps."""
    request = Request("first", BEGINNING, 40)
    with running(config("ddtree", 8, "tiny")) as engine:
        (first,) = ask(engine, [request])
        (second,) = ask(engine, [Request("second", BEGINNING, 40)])
    assert (first.outputs[-1].reused, second.outputs[-1].reused) == (0, 24)
    assert second.outputs[-1].speculation == first.outputs[-1].speculation
    assert [output.tokens for output in second.outputs] == [o.tokens for o in first.outputs]


def test_a_prompt_that_gave_nan_is_not_found_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, broken = TinyTarget.embed, [True]

    def flaky(self: TinyTarget, tokens: torch.Tensor) -> torch.Tensor:
        return honest(self, tokens) + (torch.nan if broken[0] else 0.0)

    monkeypatch.setattr(TinyTarget, "embed", flaky)
    with running(config()) as engine:
        (bad,) = ask(engine, [Request("bad", BEGINNING, 5)])
        broken[0] = False
        (good,) = ask(engine, [Request("good", BEGINNING, 5)])
    assert bad.outputs[-1].finish is Finish.ERROR
    assert good.outputs[-1].reused == 0
    assert good.tokens == tokens_of(config(), [Request("plain", BEGINNING, 5)])[0]

"""What goes wrong for one request, or at one start, is nobody else's: on a device, with graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.core.sequence import Finish, Request
from ddtree.engine.build import build
from ddtree.engine.errors import CapacityError, RequestError
from ddtree.engine.loop import Engine
from ddtree.models.llama import Llama
from ddtree.speculate.seam import Models
from tests.gpu import engine as shared
from tests.gpu.engine import VOCAB, running
from tests.gpu.test_requests import CONFIG, PLAIN, prompt, tokens_of
from tests.runtime.engine.asking import Answer, ask

pytestmark = pytest.mark.gpu
ASKED = [Request(str(i), prompt(6 + 9 * i, i), 50) for i in range(8)]


@pytest.fixture
def models() -> Models:
    """Their embedding is no longer the head's, so that a token can be poisoned alone."""
    models = shared.small_models(shared.DEVICE)
    assert isinstance(models.target, Llama)
    models.target.embedding = models.target.embedding.clone()
    return models


@pytest.fixture
def wanted(models: Models) -> list[list[int]]:
    return tokens_of(PLAIN, models, ASKED)


def answers(engine: Engine) -> list[list[int]]:
    return [answer.tokens for answer in ask(engine, ASKED)]


def embedding(models: Models) -> torch.Tensor:
    assert isinstance(models.target, Llama)
    return models.target.embedding


def test_a_cache_that_does_not_fit_is_refused_and_the_next_start_serves(
    models: Models, wanted: list[list[int]]
) -> None:
    with pytest.raises(CapacityError, match="does not fit"):
        build(replace(CONFIG, kv_tokens=10**11), models)
    with running(CONFIG, models) as engine:
        assert answers(engine) == wanted


def test_a_request_that_is_too_large_is_refused_while_others_are_served(
    models: Models, wanted: list[list[int]]
) -> None:
    too_large = [
        Request("long", prompt(CONFIG.context_length), 5),
        Request("cache", prompt(250), 5),
        Request("foreign", (1, VOCAB), 5),
        Request("nothing", (), 5),
    ]
    with running(replace(CONFIG, kv_tokens=200), models) as engine:
        waiting = [Answer() for _ in ASKED]
        for request, answer in zip(ASKED, waiting, strict=True):
            engine.submit(request, answer)
            with pytest.raises(RequestError):
                engine.submit(too_large[int(request.id) % len(too_large)], Answer())
        for answer in waiting:
            answer.wait()
        assert engine.stats().preemptions > 0
    assert [answer.tokens for answer in waiting] == wanted


def test_a_token_that_gives_nan_ends_those_who_meet_it_and_nobody_else(models: Models) -> None:
    few = [Request(str(i), (i % 8, (3 * i + 1) % 8, i % 3), 40) for i in range(16)]
    wanted = tokens_of(PLAIN, models, few)
    said = [set(answer[:-1]) for answer in wanted]  # the last one is not read
    meeting = {token: [token in one for one in said] for token in range(8, VOCAB)}
    bad, meets = next((t, m) for t, m in meeting.items() if any(m) and not all(m))
    others = [one for one, met in zip(few, meets, strict=True) if not met]
    with running(replace(CONFIG, mode="ar"), models) as engine:
        embedding(models)[bad] = torch.nan  # in place: graphs read it at their next replay
        heard = ask(engine, few)
        embedding(models)[bad] = 0.0  # nobody below reads it; their pages held NaN before
        after = ask(engine, [replace(one, id=f"after-{one.id}") for one in others])
        assert engine.alive
    for answer, whole, met in zip(heard, wanted, meets, strict=True):
        last = answer.outputs[-1]
        assert last.finish is (Finish.ERROR if met else Finish.LENGTH)
        assert answer.tokens == (whole[: whole.index(bad) + 1] if met else whole)
        assert ("not finite" in (last.error or "")) == met
    right = [answer for answer, met in zip(wanted, meets, strict=True) if not met]
    assert [answer.tokens for answer in after] == right


def test_poisoned_prompts_are_refused_beside_others_and_leave_no_page_behind(
    models: Models, wanted: list[list[int]]
) -> None:
    """Without trees, which would try the poisoned token for everybody."""

    def meets(token: int, one: Request, answer: list[int]) -> bool:
        return token in one.prompt or token in answer[:-1]

    pairs = list(zip(ASKED, wanted, strict=True))
    poison = min(range(VOCAB), key=lambda token: sum(meets(token, *pair) for pair in pairs))
    asked, right = zip(*(pair for pair in pairs if not meets(poison, *pair)), strict=True)
    assert len(asked) > len(ASKED) // 2
    poisoned = [Request(f"poisoned-{i}", (*prompt(40, i + 20), poison), 9) for i in range(4)]
    mixed = [one for pair in zip(asked, poisoned, strict=False) for one in pair]
    with running(replace(CONFIG, mode="ar"), models) as engine:
        embedding(models)[poison] = torch.nan  # in place: graphs read it at their next replay
        heard = dict(zip((one.id for one in mixed), ask(engine, mixed), strict=True))
        embedding(models)[poison] = 0.0
        after = ask(engine, [replace(one, id=f"after-{one.id}") for one in asked])
        assert engine.alive
    for one in poisoned:
        assert heard[one.id].outputs[-1].finish is Finish.ERROR
    for one, tokens in zip(asked, right, strict=True):
        assert one.id not in heard or heard[one.id].tokens == tokens
    assert [answer.tokens for answer in after] == list(right)

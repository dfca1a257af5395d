"""What a request asks of speculation, within what the server was started with."""

from __future__ import annotations

import pytest

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Request, Sampling, Speculation, Speculative
from ddtree.engine.errors import RequestError
from ddtree.engine.stepper import Launch, Stepper, Ticket
from tests.runtime.engine.asking import PROMPTS, Answer, ask, config, requests, running, tokens_of

DEPTH = 4  # of the tiny drafter


def asking(speculative: Speculative, prompt: int = 3) -> Request:
    return Request(f"{speculative}-{prompt}", PROMPTS[prompt], 40, speculative=speculative)


def found(wanted: EngineConfig, *asked: Request) -> list[Speculation | None]:
    with running(wanted) as engine:
        return [answer.outputs[-1].speculation for answer in ask(engine, list(asked))]


SETTINGS = [
    Speculative(),
    Speculative("ar"),
    Speculative("chain"),
    Speculative("chain", 2),
    Speculative("ddtree", 3),
    Speculative(budget=6),
]


@pytest.mark.parametrize("drafter", ["tiny", "prompt-lookup"])
def test_a_batch_mixes_them_and_no_token_changes(drafter: str) -> None:
    greedy = tokens_of(config(), requests())
    asked = [
        Request(str(i), prompt, 40, speculative=setting)
        for i, (prompt, setting) in enumerate(zip(PROMPTS, SETTINGS, strict=True))
    ]
    with running(config("ddtree", 8, drafter, max_running_requests=6)) as engine:
        answers = ask(engine, asked)
        whole = engine.stats().speculation
    assert [answer.tokens for answer in answers] == greedy
    counted = [answer.outputs[-1].speculation or Speculation() for answer in answers]
    assert counted[1] == Speculation()
    for one, most in zip(counted, [8, 0, DEPTH if drafter == "tiny" else 8, 2, 3, 6], strict=True):
        assert one.drafted <= most * one.verify_steps
    assert sum(one.verify_steps for one in counted) == whole.verify_steps
    assert sum(one.drafted for one in counted) == whole.drafted


@pytest.mark.parametrize(
    ("speculative", "alone"),
    [
        (Speculative("chain"), config("chain", 4, "tiny")),
        (Speculative("ddtree", 5), config("ddtree", 5, "tiny")),
        (Speculative("ddtree", 1), config("ddtree", 1, "tiny")),
    ],
    ids=str,
)
def test_a_request_gets_the_steps_of_a_server_started_for_it(
    speculative: Speculative, alone: EngineConfig
) -> None:
    mixed = [asking(Speculative()), asking(speculative), asking(Speculative("ar"))]
    assert found(config("ddtree", 12, "tiny"), *mixed)[1] == found(alone, asking(Speculative()))[0]


def test_a_step_without_drafting_rows_is_an_autoregressive_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budgets: list[int] = []
    launch = Stepper.launch

    def spied(self: Stepper, wanted: Launch) -> Ticket:
        budgets.append(wanted.budget)
        return launch(self, wanted)

    monkeypatch.setattr(Stepper, "launch", spied)
    found(config("ddtree", 8, "tiny"), asking(Speculative("ar")))
    assert set(budgets) == {0}


def test_a_seed_holds_whatever_is_asked() -> None:
    sampling = Sampling(temperature=0.9, min_p=0.02, seed=4)
    asked = [
        Request(str(i), PROMPTS[2], 40, sampling, speculative=setting)
        for i, setting in enumerate(SETTINGS)
    ]
    answers = tokens_of(config("ddtree", 8, "tiny", max_running_requests=6), asked)
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize(
    ("mode", "speculative", "param"),
    [
        ("ar", Speculative("ddtree"), "mode"),
        ("ar", Speculative(budget=1), "budget"),
        ("chain", Speculative("ddtree"), "mode"),
        ("chain", Speculative(budget=DEPTH + 1), "budget"),
        ("ddtree", Speculative(budget=9), "budget"),
        ("ddtree", Speculative("chain", DEPTH + 1), "budget"),
        ("ddtree", Speculative("ar", 1), "budget"),
    ],
    ids=str,
)
def test_more_than_the_server_was_started_with_is_refused(
    mode: Mode, speculative: Speculative, param: str
) -> None:
    wanted = config(mode, 8, None if mode == "ar" else "tiny")
    with running(wanted) as engine, pytest.raises(RequestError) as caught:
        engine.submit(asking(speculative), Answer())
    assert caught.value.param == f"speculative.{param}"

"""`generate`: the text on stdout, the counters of its steps on stderr."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ddtree.server import generate
from ddtree.server.exits import LoadError
from ddtree.server.generate import Wish
from tests.runtime.server.double import CONFIG, Double, endless, words

WISH = Wish(
    prompt="say", chat=False, max_tokens=50, temperature=0.0, top_p=1.0, seed=3, ignore_eos=False
)


def run(engine: Double, wish: Wish, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(generate, "load_engine", lambda _: engine)
    monkeypatch.setattr(generate, "load_words", lambda _: words())
    code = generate.generate(CONFIG, wish)
    assert not engine.alive
    return code


def test_the_text_and_the_counters_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Double(step_s=0.01)
    assert run(engine, WISH, monkeypatch) == 0
    said = capsys.readouterr()
    assert said.out == "Hello, world!\n"
    assert "answer 14 tokens (stop)" in said.err
    assert "accept 2.80 over 5 verify steps; drafted 20, accepted 9" in said.err
    rate = re.search(r"([\d.]+) tokens/s after the first", said.err)
    assert rate is not None
    assert 0 < float(rate[1]) < 11 / 0.04  # 11 tokens in the 4 steps after the first
    assert engine.seen[0].sampling.seed == 3


def test_a_chat_goes_through_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Double()
    run(engine, replace(WISH, chat=True), monkeypatch)
    assert bytes(engine.seen[0].prompt) == b"user: say\nassistant: "


def test_ignore_eos_has_no_end_token(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Double()
    run(engine, replace(WISH, ignore_eos=True), monkeypatch)
    assert engine.seen[0].stop_token_ids == frozenset()


def test_a_prompt_the_engine_refuses_is_a_bad_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoadError) as caught:
        run(Double(), replace(WISH, prompt="refuse"), monkeypatch)
    assert caught.value.exit_code == 2


def test_an_engine_that_fails_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Double(endless, error="not finite"), WISH, monkeypatch) == 1
    assert "error: not finite" in capsys.readouterr().err

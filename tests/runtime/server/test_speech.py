"""Thoughts, text and calls are told apart alike however the answer is cut into pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtree.server.dialect import DIALECTS, MARKERS
from ddtree.server.speech import Hearing, Part, Speech
from tests.runtime.server.dialects import hermes_call, kimi_call, kimi_calls


def hearing(name: str, *, thinking: bool = False, single: bool = False) -> Hearing:
    return Hearing(DIALECTS[name], thinking=thinking, calling=True, single=single)


def heard(pieces: Sequence[str], how: Hearing) -> Part:
    speech = Speech(how, "r")
    said = Part()
    for piece in pieces:
        said += speech.push(piece)
    return said + speech.flush()


# Everything that an answer may be made of, broken parts included. Words are all different.
FRAGMENTS = st.one_of(
    st.sampled_from(sorted(MARKERS)),
    st.sampled_from(["<", "<|", "</", "<tool", "<|tool_call", "{", '{"name": "f"}', "null"]),
    st.sampled_from([" ", "\n", "\n\n", "\t "]),
    st.builds(hermes_call, st.just("f"), st.dictionaries(st.just("a"), st.integers())),
    st.builds(kimi_call, st.just("f"), st.integers(0, 9), st.sampled_from(["{}", '{"a": 1}', "{"])),
)
ANSWERS = st.lists(FRAGMENTS, max_size=12).map(
    lambda parts: "".join(f"{part}w{at}." if at % 2 else part for at, part in enumerate(parts))
)
HOW = st.builds(
    hearing, st.sampled_from(sorted(DIALECTS)), thinking=st.booleans(), single=st.booleans()
)


@given(ANSWERS, HOW, st.data())
def test_the_cuts_change_nothing(answer: str, how: Hearing, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=30)))
    pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    assert heard(pieces, how) == heard([answer], how) == heard(list(answer), how)


@given(answer=ANSWERS, name=st.sampled_from(sorted(DIALECTS)), thinking=st.booleans())
def test_no_word_is_lost(*, answer: str, name: str, thinking: bool) -> None:
    said = heard(list(answer), hearing(name, thinking=thinking))
    shown = said.thought + said.text + "".join(call.id + call.arguments for call in said.calls)
    words = [f"w{at}." for at in range(1, 12, 2) if f"w{at}." in answer]
    assert [word for word in words if word not in shown] == []


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: "<" not in text and text == text.strip()
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers() | st.booleans(), max_size=3)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3)


@given(TEXT, TEXT, CALLS)
def test_what_kimi_writes_comes_back(
    thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    spelled = [(name, json.dumps(arguments)) for name, arguments in calls]
    written = [kimi_call(name, at, one) for at, (name, one) in enumerate(spelled)]
    answer = f"{thought}</think>{text}" + (kimi_calls(*written) if written else "")
    said = heard(list(answer), hearing("kimi-k2", thinking=True))
    assert (said.thought, said.text) == (thought, text)
    assert [(call.name, call.arguments) for call in said.calls] == spelled
    assert [call.id for call in said.calls] == [
        f"functions.{name}:{at}" for at, (name, _) in enumerate(calls)
    ]


@given(TEXT, TEXT, CALLS)
def test_what_qwen_writes_comes_back(
    thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    answer = f"<think>\n{thought}\n</think>\n\n{text}"
    answer += "".join(f"\n{hermes_call(name, arguments)}" for name, arguments in calls)
    said = heard(list(answer), hearing("qwen3"))
    assert said.thought == thought.strip("\n")
    assert said.text.strip() == text
    assert [(call.name, json.loads(call.arguments)) for call in said.calls] == calls
    assert [call.id for call in said.calls] == [f"call-r-{at}" for at in range(len(calls))]
    assert [call.index for call in said.calls] == list(range(len(calls)))


@pytest.mark.parametrize(
    "written",
    [
        "<tool_call>no JSON</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>',
        '<tool_call>{"name": "f", "argum',
    ],
)
def test_what_is_no_call_after_all_is_text(written: str) -> None:
    said = heard(list(f"Look: {written}"), hearing("hermes"))
    assert said == Part(text=f"Look: {written}")


def test_a_call_of_kimi_that_is_none_is_text_and_the_next_is_a_call() -> None:
    bad, good = kimi_call("f", 0, '{"a": '), kimi_call("g", 1, '{"a": 1}')
    said = heard([kimi_calls(bad, good)], hearing("kimi-k2"))
    assert said.text == bad
    assert [(call.index, call.id) for call in said.calls] == [(0, "functions.g:1")]


def test_a_call_without_arguments_has_none() -> None:
    said = heard([kimi_calls(kimi_call("f", 0, ""))], hearing("kimi-k2"))
    assert [call.arguments for call in said.calls] == ["{}"]


def test_a_complete_call_whose_end_is_missing_is_a_call() -> None:
    said = heard(['<tool_call>{"name": "f", "arguments": {"a": 1}}'], hearing("hermes"))
    assert [call.name for call in said.calls] == ["f"]
    assert said.text == ""


def test_kimi_may_call_without_ending_its_thought() -> None:
    said = heard(["Hm." + kimi_calls(kimi_call("f", 0, "{}"))], hearing("kimi-k2", thinking=True))
    assert (said.thought, said.text, len(said.calls)) == ("Hm.", "", 1)


def test_a_thought_begins_an_answer_or_is_text() -> None:
    said = heard(["Write <think> first."], hearing("qwen3"))
    assert said == Part(text="Write <think> first.")


def test_after_a_single_call_nothing_is_heard() -> None:
    calls = hermes_call("f", {}) + hermes_call("g", {}) + "more"
    said = heard(list(calls), hearing("hermes", single=True))
    assert [call.name for call in said.calls] == ["f"]
    assert said.text == ""


def test_without_tools_calls_are_text() -> None:
    written = hermes_call("f", {})
    assert heard(list(written), Hearing(DIALECTS["hermes"])) == Part(text=written)

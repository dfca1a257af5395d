"""Tools and thoughts over HTTP: the real client, a real template, an engine that says what to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from tests.runtime.server.dialects import (
    KIMI,
    QWEN,
    WEATHER,
    hermes_call,
    kimi_call,
    kimi_calls,
)
from tests.runtime.server.double import Double, saying
from tests.runtime.server.live import MODEL, Live, live, until
from tests.runtime.server.test_completions import HI

TOKYO = '{"city": "Tokyo"}'
KIMI_ANSWER = "I need it.</think>Let me look. " + kimi_calls(
    kimi_call("get_weather", 0, TOKYO), kimi_call("get_weather", 1, '{"city": "Oslo"}')
)
QWEN_ANSWER = "<think>\nI need it.\n</think>\n\nLet me look.\n" + hermes_call(
    "get_weather", {"city": "Tokyo"}
)


@contextmanager
def answering(text: str, template: str, *, step: int = 3) -> Iterator[Live]:
    with live(Double(saying(text, step=step)), template=template) as server:
        yield server


def ask(server: Live, **given: Any) -> Any:  # the client's types differ with `stream`
    with server.openai() as client:
        return client.chat.completions.create(**{"model": MODEL, "messages": HI, **given})


def streamed(server: Live, **given: Any) -> tuple[dict[str, Any], str]:
    """What a client that joins the deltas has in the end, and why the answer ended."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": {}}
    finish = ""
    with server.openai() as client:
        for chunk in client.chat.completions.create(model=MODEL, messages=HI, stream=True, **given):
            (choice,) = chunk.choices
            said = choice.delta.model_dump(exclude_none=True)
            message["content"] += said.get("content", "")
            message["reasoning_content"] += said.get("reasoning_content", "")
            for call in said.get("tool_calls", ()):
                assert call["index"] not in message["tool_calls"], "a call came twice"
                message["tool_calls"][call.pop("index")] = call
            finish = choice.finish_reason or finish
    return message, finish


def prompt(server: Live) -> str:
    return bytes(server.engine.seen[-1].prompt).decode()


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_kimi_thinks_speaks_and_calls(step: int) -> None:
    with answering(KIMI_ANSWER, KIMI, step=step) as server:
        whole = ask(server, tools=[WEATHER]).choices[0]
        joined, finish = streamed(server, tools=[WEATHER])
        assert prompt(server).endswith("<think>")
        assert prompt(server).startswith(
            '<|im_system|>tool_declare<|im_middle|>[{"type":"function","function":{"name":"get_we'
        )
    message = whole.message
    assert message.content == joined["content"] == "Let me look. "
    assert message.reasoning_content == joined["reasoning_content"] == "I need it."
    calls = [call.model_dump() for call in message.tool_calls]
    assert calls == list(joined["tool_calls"].values())
    assert calls[0] == {
        "id": "functions.get_weather:0",
        "type": "function",
        "function": {"name": "get_weather", "arguments": TOKYO},
    }
    assert calls[1]["id"] == "functions.get_weather:1"
    assert whole.finish_reason == finish == "tool_calls"


def test_qwen_thinks_speaks_and_calls() -> None:
    with answering(QWEN_ANSWER, QWEN) as server:
        whole = ask(server, tools=[WEATHER]).choices[0]
        joined, finish = streamed(server, tools=[WEATHER])
    assert whole.message.content == joined["content"] == "Let me look."
    assert whole.message.reasoning_content == joined["reasoning_content"] == "I need it."
    (call,) = whole.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "get_weather",
        {"city": "Tokyo"},
    )
    assert whole.finish_reason == finish == "tool_calls"


def test_an_answer_that_only_calls_has_no_content() -> None:
    with answering(hermes_call("get_weather", {}), QWEN) as server:
        message = ask(server, tools=[WEATHER]).choices[0].message
    assert message.content is None
    assert len(message.tool_calls) == 1


def test_a_cut_answer_says_so_and_keeps_what_was_begun() -> None:
    answer = "Look. " + hermes_call("get_weather", {"city": "Tokyo"})
    with answering(answer, QWEN) as server:
        choice = ask(server, tools=[WEATHER], max_tokens=30).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.content == answer[:30]
    assert choice.message.tool_calls is None


def test_one_call_at_a_time_ends_the_answer_with_the_first() -> None:
    with answering(KIMI_ANSWER + " And so on." * 50, KIMI) as server:
        choice = ask(server, tools=[WEATHER], parallel_tool_calls=False).choices[0]
        until(lambda: server.engine.stats().running == 0)
    assert [call.id for call in choice.message.tool_calls] == ["functions.get_weather:0"]
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("given", [{}, {"tools": [WEATHER], "tool_choice": "none"}])
def test_whoever_wants_no_call_reads_the_answer_as_it_is(given: dict[str, Any]) -> None:
    written = hermes_call("get_weather", {})
    with answering(written, QWEN) as server:
        choice = ask(server, **given).choices[0]
        assert "get_weather" not in prompt(server)
    assert (choice.message.content, choice.finish_reason) == (written, "stop")


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_a_call_that_cannot_be_promised_is_refused(choice: Any) -> None:
    with answering("", QWEN) as server, pytest.raises(openai.BadRequestError) as caught:
        ask(server, tools=[WEATHER], tool_choice=choice)
    assert (caught.value.param, caught.value.code) == ("tool_choice", "unsupported_parameter")


def test_tools_are_refused_where_calls_could_not_be_read() -> None:
    with live(Double()) as server, pytest.raises(openai.BadRequestError) as caught:
        ask(server, tools=[WEATHER])
    assert caught.value.param == "tools"


def test_thinking_can_be_switched_off_for_a_request() -> None:
    off = {"chat_template_kwargs": {"thinking": False}}
    with answering("At once.", KIMI) as server:
        message = ask(server, extra_body=off).choices[0].message
        assert prompt(server).endswith("<think></think>")
    assert message.content == "At once."
    assert not hasattr(message, "reasoning_content")


def test_the_next_turn_brings_the_thought_the_call_and_its_result_back() -> None:
    with answering(KIMI_ANSWER, KIMI) as server:
        message = ask(server, tools=[WEATHER]).choices[0].message
        first = prompt(server)
        history = [
            *HI,
            message.model_dump(exclude_none=True),
            *(
                {"role": "tool", "tool_call_id": call.id, "content": "18 C"}
                for call in message.tool_calls
            ),
        ]
        ask(server, messages=history, tools=[WEATHER])
        second = prompt(server)
    # What the model wrote is what it finds again: so much of the prompt is cached already.
    assert second.startswith(first + KIMI_ANSWER + "<|im_end|>")
    assert second.count("## Return of functions.get_weather:") == 2


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "content": "18 C"}, "messages[1].tool_call_id"),
        ({"role": "user", "content": "", "tool_call_id": "x"}, "messages[1].tool_call_id"),
        (
            {"role": "user", "content": "", "reasoning_content": "x"},
            "messages[1].reasoning_content",
        ),
    ],
)
def test_a_message_has_only_what_its_role_has(message: dict[str, Any], param: str) -> None:
    with answering("", KIMI) as server, pytest.raises(openai.BadRequestError) as caught:
        ask(server, messages=[*HI, message])
    assert caught.value.param == param


def test_choices_call_each_for_itself() -> None:
    with answering(QWEN_ANSWER, QWEN) as server:
        answer = ask(server, tools=[WEATHER], n=3)
    ids = [choice.message.tool_calls[0].id for choice in answer.choices]
    assert len(set(ids)) == 3

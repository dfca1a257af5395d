"""Every wrong body is an error that names the parameter; what changes nothing is ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddtree.server.errors import ApiError
from ddtree.server.protocol import HARMLESS, NEUTRAL, ChatBody, CompletionBody, parse

USER = {"role": "user", "content": "hi"}


def completion(**given: Any) -> CompletionBody:
    return parse(json.dumps({"model": "m", "prompt": "a", **given}).encode(), CompletionBody)


def chat(**given: Any) -> ChatBody:
    return parse(json.dumps({"model": "m", "messages": [USER], **given}).encode(), ChatBody)


@pytest.mark.parametrize(
    ("given", "param", "code"),
    [
        ({"model": None}, "model", "missing_parameter"),
        ({"prompt": None}, "prompt", "missing_parameter"),
        ({"prompt": 3}, "prompt", "invalid_type"),
        ({"prompt": []}, "prompt", "invalid_type"),
        ({"prompt": [1, "a"]}, "prompt", "invalid_type"),
        ({"prompt": [[1], ["a"]]}, "prompt", "invalid_type"),
        ({"prompt": True}, "prompt", "invalid_type"),
        ({"temperature": "1"}, "temperature", "invalid_value"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"temperature": -1}, "temperature", "invalid_value"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_value"),
        ({"max_tokens": True}, "max_tokens", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"seed": 2**63}, "seed", "invalid_value"),
        ({"stop": ""}, "stop", "invalid_type"),
        ({"stop": ["a", ""]}, "stop", "invalid_type"),
        ({"stop": 1}, "stop", "invalid_type"),
        ({"logprobs": 21}, "logprobs", "invalid_value"),
        ({"stream_options": {"usage": True}}, "stream_options.usage", "unknown_parameter"),
        ({"wild": 1}, "wild", "unknown_parameter"),
        ({"echo": True}, "echo", "unsupported_parameter"),
        ({"suffix": "b"}, "suffix", "unsupported_parameter"),
        ({"best_of": 2}, "best_of", "unsupported_parameter"),
        ({"presence_penalty": 0.1}, "presence_penalty", "unsupported_parameter"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "unsupported_parameter"),
        ({"frequency_penalty": -0.1}, "frequency_penalty", "unsupported_parameter"),
        ({"repetition_penalty": 1.1}, "repetition_penalty", "unsupported_parameter"),
        ({"top_k": -2}, "top_k", "invalid_value"),
        ({"top_k": 1.5}, "top_k", "invalid_value"),
        ({"min_p": 1.1}, "min_p", "invalid_value"),
        ({"speculative": "ar"}, "speculative", "invalid_value"),
        ({"speculative": {"mode": "beam"}}, "speculative.mode", "invalid_value"),
        ({"speculative": {"budget": 0}}, "speculative.budget", "invalid_value"),
        ({"speculative": {"nodes": 3}}, "speculative.nodes", "unknown_parameter"),
    ],
)
def test_a_wrong_completion_names_its_parameter(
    given: dict[str, Any], param: str, code: str
) -> None:
    with pytest.raises(ApiError) as caught:
        completion(**given)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)
    assert param in caught.value.message


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [USER, {"role": "robot", "content": ""}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, "messages[0].content"),
        ({"messages": [{**USER, "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "retrieval", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
            "tools[0].function.strict",
        ),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": 1}, "logprobs"),
    ],
)
def test_a_wrong_chat_names_its_parameter(given: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat(**given)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"a"',
        b"\xff",
        b'{"temperature": NaN}',
        b"[" * 100_000,
        b'{"a": "\\ud800"}',
    ],
)
def test_what_is_no_json_object_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse(data, ChatBody)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


def test_parameters_that_change_nothing_are_ignored() -> None:
    inert = dict.fromkeys(HARMLESS, "x") | {name: values[0] for name, values in NEUTRAL.items()}
    assert completion(**inert) == completion()
    assert chat(**inert, temperature=None, stop=None) == chat()


def test_prompts_come_in_four_shapes() -> None:
    assert completion(prompt="ab").prompts == ["ab"]
    assert completion(prompt=["a", "b"]).prompts == ["a", "b"]
    assert completion(prompt=[1, 2]).prompts == [[1, 2]]
    assert completion(prompt=[[1], [2, 3]]).prompts == [[1], [2, 3]]


def test_an_answer_can_be_sent_back_as_the_client_got_it() -> None:
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": "hello",
        "refusal": None,
        "annotations": [],
    }
    assert chat(messages=[USER, answer]).messages[1].plain() == {
        "role": "assistant",
        "content": "hello",
    }


def test_text_parts_are_joined_and_the_developer_is_the_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    (message,) = chat(messages=[{"role": "developer", "content": parts}]).messages
    assert message.plain() == {"role": "system", "content": "ab"}

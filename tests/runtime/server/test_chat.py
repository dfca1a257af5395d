"""Conversations through the model's own template, against transformers rendering the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddtree.models.errors import ModelError
from ddtree.models.gguf_file import GgufFile, open_gguf_file
from ddtree.server.chat import ChatError, ChatTemplate, from_gguf, load_chat
from tests.runtime.server.dialects import KIMI, QWEN, WEATHER

Messages = list[dict[str, str]]

HERE = Path("model")
USER = {"role": "user", "content": "Hi there"}
CONVERSATIONS: dict[str, Messages] = {
    "one question": [USER],
    "a system message": [{"role": "system", "content": "Be brief."}, USER],
    "several turns": [USER, {"role": "assistant", "content": "Hello!"}, USER],
    "an open answer": [USER, {"role": "assistant", "content": "It is"}],
    "awkward content": [{"role": "user", "content": " <b>&\"'{{ x }}{% raw %}\n\n  é😀<|im_end|>"}],
    "nothing said": [{"role": "user", "content": ""}],
}


@pytest.mark.parametrize("generate", [True, False])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_smollm2_renders_as_transformers_does(
    smollm2_gguf: Path, reference_tokenizer: Any, name: str, *, generate: bool
) -> None:
    chat = load_chat(smollm2_gguf)
    assert chat is not None
    messages = CONVERSATIONS[name]
    wanted = reference_tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=generate
    )
    assert chat.render(messages, add_generation_prompt=generate) == wanted


# Written for these tests in the manner of the field: what templates do beyond SmolLM2's.
STRICT = """
{%- set ns = namespace(last='') -%}
{{- bos_token -}}
{% for message in messages %}
    {% if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate, found ' ~ message['role']) }}
    {% endif %}
    {% if message.role == 'user' and message.content is string %}
[U]{{ message.content.strip() }}[/U]
    {%- elif message.content.startswith('{') %}
{{ message | tojson }}
    {%- else %}
{{ message.content | trim }}{{ eos_token }}
    {%- endif %}
    {%- set ns.last = message.role %}
{% endfor %}
{{ messages[0]['content'].split(' ')[-1] | upper }}{{ ns.last }}
{%- if add_generation_prompt %}
[A]
{% endif %}
"""


@pytest.mark.parametrize("name", ["one question", "several turns", "an open answer"])
@pytest.mark.parametrize("generate", [True, False])
def test_a_demanding_template_renders_as_transformers_does(
    reference_tokenizer: Any, name: str, *, generate: bool
) -> None:
    chat = ChatTemplate(
        STRICT,
        {"bos_token": reference_tokenizer.bos_token, "eos_token": reference_tokenizer.eos_token},
        HERE,
    )
    messages = [*CONVERSATIONS[name]]
    if messages[-1]["role"] == "assistant":
        messages[-1] = {"role": "assistant", "content": '{"é": "<&>"}'}
    wanted = reference_tokenizer.apply_chat_template(
        messages, chat_template=STRICT, tokenize=False, add_generation_prompt=generate
    )
    assert chat.render(messages, add_generation_prompt=generate) == wanted


TOOL_TALK: list[dict[str, Any]] = [
    USER,
    {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "I need it.",
        "tool_calls": [
            {
                "id": "functions.get_weather:0",
                "type": "function",
                "function": {"name": "get_weather", "arguments": {"city": "Tōkyō <&>"}},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "18 °C"},
]


@pytest.mark.parametrize("template", [QWEN, KIMI])
@pytest.mark.parametrize("switches", [{}, {"thinking": False, "enable_thinking": False}])
def test_tools_and_thoughts_render_as_transformers_does(
    reference_tokenizer: Any, template: str, switches: dict[str, Any]
) -> None:
    wanted = reference_tokenizer.apply_chat_template(
        TOOL_TALK,
        tools=[WEATHER],
        chat_template=template,
        tokenize=False,
        add_generation_prompt=True,
        **switches,
    )
    chat = ChatTemplate(template, {}, HERE)
    assert chat.render(TOOL_TALK, tools=[WEATHER], switches=switches) == wanted


def test_a_switch_replaces_nothing_that_the_server_says() -> None:
    chat = ChatTemplate("{{ bos_token }}{{ messages | length }}", {"bos_token": "<s>"}, HERE)
    assert chat.render([USER], switches={"bos_token": "", "messages": []}) == "<s>1"


def test_a_template_may_refuse_roles_in_its_own_words() -> None:
    chat = ChatTemplate(STRICT, {"bos_token": "", "eos_token": ""}, HERE)
    with pytest.raises(ChatError, match=r"^roles must alternate, found system$"):
        chat.render([{"role": "system", "content": "x"}])


def test_a_template_that_fails_says_why_in_one_line() -> None:
    chat = ChatTemplate("{{ messages[0]['content'] + 1 }}", {}, HERE)
    with pytest.raises(ChatError, match=r"^tried to use \+ operator .* \(line 1\)$"):
        chat.render([USER])


def test_a_template_without_an_end_runs_out_of_fuel() -> None:
    endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}"
    with pytest.raises(ChatError, match="OutOfFuel"):
        ChatTemplate(endless, {}, HERE).render([USER])


def test_a_thousand_messages_do_not(smollm2_gguf: Path) -> None:
    chat = load_chat(smollm2_gguf)
    assert chat is not None
    assert chat.render([USER] * 1000).count("Hi there") == 1000


def test_a_broken_template_names_its_file() -> None:
    with pytest.raises(ModelError, match=r"^model: its chat template cannot be read: .*line 1"):
        ChatTemplate("{% if %}", {}, HERE)


def test_a_model_without_a_template_has_none(smollm2_gguf: Path, tmp_path: Path) -> None:
    file = open_gguf_file(smollm2_gguf)
    metadata = {k: v for k, v in file.metadata.items() if k != "tokenizer.chat_template"}
    assert from_gguf(GgufFile(file.path, metadata, [])) is None
    (tmp_path / "config.json").write_text("{}")
    assert load_chat(tmp_path) is None


@pytest.mark.parametrize("place", ["in the config", "by name", "beside it"])
def test_a_folders_template_is_found_wherever_it_is_kept(tmp_path: Path, place: str) -> None:
    text = "{{ bos_token }}{{ messages[0].content }}"
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": text}]
    config: dict[str, Any] = {"bos_token": {"content": "<s>"}, "eos_token": None}
    if place != "beside it":
        config["chat_template"] = text if place == "in the config" else named
    else:
        (tmp_path / "chat_template.jinja").write_text(text)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    chat = load_chat(tmp_path)
    assert chat is not None
    assert chat.render([USER]) == "<s>Hi there"

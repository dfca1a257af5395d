"""Chat templates in the manner of the field, written for these tests, and answers to them."""

from __future__ import annotations

import json
from typing import Any

QWEN = """\
{%- if tools %}
<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Answer with <tool_call>{"name": .., "arguments": ..}</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
<|im_start|>{{ message.role }}
{% if message.role == 'tool' %}<tool_response>{{ message.content }}</tool_response>
{%- else %}
    {%- if message.reasoning_content %}<think>
{{ message.reasoning_content.strip('\\n') }}
</think>

{% endif %}
{{- message.content }}
    {%- for call in message.tool_calls %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
    {%- endfor %}
{%- endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}
{%- endif %}
"""

KIMI = """\
{%- if tools -%}
<|im_system|>tool_declare<|im_middle|>{{ tools | tojson(separators=(',', ':')) }}<|im_end|>
{%- endif -%}
{%- for message in messages -%}
<|im_{{ message.get('role') }}|>{{ message.get('name', message['role']) }}<|im_middle|>
{%- if message['role'] == 'tool' -%}
## Return of {{ message.get('tool_call_id') }}
{{ message['content'] }}
{%- elif message['role'] == 'assistant' -%}
<think>{{ message.get('reasoning_content', '') }}</think>{{ message['content'] }}
    {%- if message.get('tool_calls') -%}
<|tool_calls_section_begin|>
        {%- for call in message['tool_calls'] -%}
<|tool_call_begin|>{{ call['id'] }}<|tool_call_argument_begin|>
            {%- if call['function']['arguments'] is string -%}{{ call['function']['arguments'] }}
            {%- else -%}{{ call['function']['arguments'] | tojson }}
            {%- endif -%}
<|tool_call_end|>
        {%- endfor -%}
<|tool_calls_section_end|>
    {%- endif -%}
{%- else -%}
{{ message['content'] }}
{%- endif -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_assistant|>assistant<|im_middle|>
    {%- if thinking is defined and thinking is false -%}<think></think>{%- else -%}<think>
    {%- endif -%}
{%- endif -%}
"""

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def kimi_call(name: str, index: int, arguments: str) -> str:
    head = f"<|tool_call_begin|>functions.{name}:{index}"
    return f"{head}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def kimi_calls(*calls: str) -> str:
    return f"<|tool_calls_section_begin|>{''.join(calls)}<|tool_calls_section_end|>"


def hermes_call(name: str, arguments: dict[str, Any]) -> str:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"

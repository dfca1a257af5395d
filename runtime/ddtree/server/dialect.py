"""How families of models write what is no plain answer: thoughts, and calls of tools. Data only.

Chosen by the chat template, which teaches a model to write so; what a template does not show is
not looked for. Sources: the chat templates of Qwen3 and Kimi-K2.5, and Kimi's guide to tool calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Name = Literal["plain", "hermes", "qwen3", "kimi-k2"]


@dataclass(frozen=True)
class Thoughts:
    begin: str
    end: str
    frame: str = ""  # characters that templates put around a thought, no part of it


@dataclass(frozen=True)
class Calls:
    """`begin` BODY `end`, where the body is an object with `name` and `arguments`, or, where there
    is an `inner` marker, the call's id before it and its arguments after it."""

    begin: str
    end: str
    inner: str | None = None
    frame: str = ""  # characters that templates put before a call, no part of the text
    around: tuple[str, ...] = ()  # markers that enclose all calls and say nothing themselves
    end_thoughts: bool = False  # a call ends a thought that was not ended


@dataclass(frozen=True)
class Dialect:
    name: Name
    thoughts: Thoughts | None = None
    calls: Calls | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        thoughts, calls = self.thoughts, self.calls
        return (
            *((thoughts.begin, thoughts.end) if thoughts else ()),
            *((calls.begin, calls.end, *calls.around) if calls else ()),
            *((calls.inner,) if calls and calls.inner else ()),
        )


AUTO = "auto"  # as the chat template shows

_HERMES = Calls("<tool_call>", "</tool_call>", frame="\n")
PLAIN = Dialect("plain")
DIALECTS: dict[str, Dialect] = {
    one.name: one
    for one in (
        PLAIN,
        Dialect("hermes", calls=_HERMES),
        Dialect("qwen3", Thoughts("<think>", "</think>", frame="\n"), _HERMES),
        Dialect(
            "kimi-k2",
            Thoughts("<think>", "</think>"),
            Calls(
                "<|tool_call_begin|>",
                "<|tool_call_end|>",
                inner="<|tool_call_argument_begin|>",
                around=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
                end_thoughts=True,
            ),
        ),
    )
}
# Some vocabularies have markers as control tokens, which are otherwise no part of a text.
MARKERS = frozenset(marker for one in DIALECTS.values() for marker in one.markers)


def choose(template: str | None) -> Dialect:
    """The dialect that a chat template teaches."""
    if template is None:
        return PLAIN
    if "<|tool_call_begin|>" in template:
        return DIALECTS["kimi-k2"]
    if "<function=" in template:  # Qwen3-Coder's calls are XML, which nothing here reads
        return PLAIN
    if "</think>" in template and "<tool_call>" in template:
        return DIALECTS["qwen3"]
    return DIALECTS["hermes"] if "<tool_call>" in template else PLAIN

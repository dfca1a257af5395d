"""A conversation as the text a model was trained on, by the chat template it brings.

The template comes with the weights, so it is foreign code: minijinja runs it without Python, and
with a bound on its steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import minijinja

from ddtree.models.errors import ModelError
from ddtree.models.folder_json import optional_json
from ddtree.models.gguf_file import GgufFile, open_gguf_file
from ddtree.models.source import find_source

FUEL = 20_000_000  # instructions; 1000 messages through SmolLM2's template take under 40 thousand


class ChatError(ValueError):
    """The template refuses these messages."""


class ChatTemplate:
    """`special` are the tokens a template may name: bos_token, eos_token and the like."""

    def __init__(self, source: str, special: Mapping[str, str], where: Path) -> None:
        """Raises ModelError when `source` is no template; `where` is the file it came from."""
        # as Hugging Face renders: block tags leave neither their line nor their indent
        self._environment = minijinja.Environment(trim_blocks=True, lstrip_blocks=True)
        self._environment.fuel = FUEL
        self._environment.add_global("raise_exception", _refuse)
        self._environment.add_global("strftime_now", _now)
        self._environment.add_filter("tojson", _to_json)
        self._special = dict(special)
        self.source = source
        try:
            self._environment.add_template("chat", source)
        except minijinja.TemplateError as error:
            raise ModelError(where, f"its chat template cannot be read: {_said(error)}") from error

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[dict[str, Any]] = (),
        switches: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """`switches` are names of the template's own, like `enable_thinking`.

        Raises ChatError with the template's own words.
        """
        try:
            return self._environment.render_template(
                "chat",
                **{
                    **switches,
                    **self._special,
                    "messages": list(messages),
                    "tools": list(tools) or None,
                    "add_generation_prompt": add_generation_prompt,
                },
            )
        except minijinja.TemplateError as error:
            raise ChatError(_said(error)) from error


def load_chat(path: Path | str) -> ChatTemplate | None:
    """The chat template of the model at `path`; None when it has none. Raises ModelError."""
    source = find_source(path)
    if source.gguf is not None:
        return from_gguf(open_gguf_file(source.gguf))
    return from_folder(source.folder)


def from_gguf(file: GgufFile) -> ChatTemplate | None:
    source = file.text("tokenizer.chat_template")
    if source is None:
        return None
    tokens = file.metadata.get("tokenizer.ggml.tokens", [])
    special = {
        f"{kind}_token": tokens[int(file.number(key))]
        for kind in ("bos", "eos")
        if (key := f"tokenizer.ggml.{kind}_token_id") in file.metadata
        and int(file.number(key)) < len(tokens)
    }
    return ChatTemplate(source, special, file.path)


def from_folder(folder: Path) -> ChatTemplate | None:
    path = folder / "tokenizer_config.json"
    config = optional_json(path)
    special = {
        key: value.get("content", "") if isinstance(value, dict) else value
        for key, value in config.items()
        if key in ("bos_token", "eos_token", "unk_token", "pad_token") and value is not None
    }
    beside = folder / "chat_template.jinja"
    if beside.is_file():
        return ChatTemplate(beside.read_text(encoding="utf-8"), special, beside)
    source = config.get("chat_template")
    if isinstance(source, list):  # several, by name
        named = {entry.get("name"): entry.get("template") for entry in source}
        source = named.get("default")
    return ChatTemplate(source, special, path) if isinstance(source, str) else None


def _refuse(message: str) -> str:
    raise ChatError(message)


def _now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(
    value: object,
    *,
    indent: int | None = None,
    separators: Sequence[str] | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
) -> str:
    """Hugging Face's filter, with the arguments that templates give it."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=None if separators is None else (separators[0], separators[1]),
        sort_keys=sort_keys,
    )


def _said(error: minijinja.TemplateError) -> str:
    """One line: minijinja's message goes on with the source and its variables."""
    where = f" (line {error.line})" if error.line is not None else ""
    return f"{error.detail or error.kind}{where}"

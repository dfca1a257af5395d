"""Prompt sets: shipped ones by name, a user's own by the path of a JSON file."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from ddops.bench.client import Question
from ddops.errors import SpecError
from ddops.spec.base import Word
from ddops.spec.matrix import Load

_SHIPPED = Path(__file__).parent / "prompts"
_EXAMPLE = '{"id": "mine", "licence": "...", "prompts": [{"id": "1", "text": "..."}]}'


class Prompt(Word):
    id: str
    text: str = Field(min_length=1)


class _File(Word):
    id: str
    licence: str
    about: str = ""
    source: str = ""
    prompts: tuple[Prompt, ...] = Field(min_length=1)


@dataclass(frozen=True)
class PromptSet:
    id: str
    licence: str
    sha256: str  # of the file, so that `sha256sum` gives the same
    prompts: tuple[Prompt, ...]


def load_prompts(wanted: str) -> PromptSet:
    """A shipped set when `wanted` is its name, else the file at that path."""
    shipped = _SHIPPED / f"{wanted}.json"
    path = shipped if shipped.is_file() else Path(wanted)
    try:
        data = path.read_bytes()
    except OSError as missing:
        names = ", ".join(f"`{name}`" for name in shipped_names())
        raise SpecError(
            f"no prompts at {wanted}: {missing.strerror}",
            hint=f"use one of the shipped sets {names}, or the path of a JSON file",
        ) from missing
    return _parse(data, path)


def shipped_names() -> list[str]:
    return sorted(path.stem for path in _SHIPPED.glob("*.json"))


def questions(prompts: PromptSet, load: Load) -> list[Question]:
    """`load.requests` questions, in the set's order, round and round."""
    return [_question(prompts, load, n) for n in range(load.requests)]


def warm_up(prompts: PromptSet, load: Load) -> list[Question]:
    """Same kind of text but another beginning, so that no prefix cache learns what is measured."""
    asked = [_question(prompts, load, n) for n in range(load.warmup)]
    return [
        Question(q.prompt, f"({n}) {q.text}", q.max_tokens, q.temperature, q.seed)
        for n, q in enumerate(asked)
    ]


def _question(prompts: PromptSet, load: Load, n: int) -> Question:
    prompt = prompts.prompts[n % len(prompts.prompts)]
    return Question(prompt.id, prompt.text, load.max_tokens, load.temperature, load.seed + n)


def _parse(data: bytes, path: Path) -> PromptSet:
    try:
        read = _File.model_validate_json(data)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SpecError(
            f"{path}: {where}: {first['msg']}", hint=f"a prompt file looks like `{_EXAMPLE}`"
        ) from wrong
    doubled = [id for id, count in Counter(p.id for p in read.prompts).items() if count > 1]
    if doubled:
        raise SpecError(
            f"{path}: two prompts have the id `{doubled[0]}`", hint="give every prompt its own id"
        )
    return PromptSet(read.id, read.licence, hashlib.sha256(data).hexdigest(), read.prompts)

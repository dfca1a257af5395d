"""Data sets of the field as they lie on disk: HumanEval, GSM8K, MT-Bench, ShareGPT, SPEED-Bench.

Only what is asked is read, and of a conversation only its first turn: later ones would need the
answers of another model, or those of this one, which differ from engine to engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddops.errors import SpecError
from ddops.spec.base import Word
from ddops.spec.matrix import PromptFormat


class Prompt(Word):
    id: str
    text: str


@dataclass(frozen=True)
class Shape:
    """How one data set says what is asked."""

    marks: tuple[str, ...]  # keys by which a row is told from other sets'
    ask: Callable[[Mapping[str, Any]], object]
    name: str | None  # the key of a row's own id


def _code(row: Mapping[str, Any]) -> object:
    start = row["prompt"]
    return f"Complete this Python function:\n\n{start}" if isinstance(start, str) else start


def _first_turn(row: Mapping[str, Any]) -> object:
    return row["turns"][0] if isinstance(row["turns"], list) and row["turns"] else None


def _first_human(row: Mapping[str, Any]) -> object:
    said = row["conversations"]
    first = said[0] if isinstance(said, list) and said else None
    return first.get("value") if isinstance(first, dict) and first.get("from") in _PEOPLE else None


def _first_message(row: Mapping[str, Any]) -> object:
    said = row["messages"]
    first = said[0] if isinstance(said, list) and said else None
    return first.get("content") if isinstance(first, dict) else None


_PEOPLE = ("human", "user")
_TO_FETCH = "FULL BENCHMARK DATA SHOULD BE FETCHED"  # SPEED-Bench as published, before its script
SHAPES: dict[PromptFormat, Shape] = {  # the first that fits
    "sharegpt": Shape(("conversations",), _first_human, "id"),
    "humaneval": Shape(("task_id", "prompt", "entry_point"), _code, "task_id"),
    "gsm8k": Shape(("question", "answer"), lambda row: row["question"], None),
    "speed-bench": Shape(("question_id", "messages"), _first_message, "question_id"),
    "mt-bench": Shape(("question_id", "turns"), _first_turn, "question_id"),
}
_SKIPPED: tuple[PromptFormat, ...] = ("sharegpt",)  # conversations that no person began
HINT = "data sets known: " + ", ".join(f"`{name}`" for name in sorted(SHAPES))


def prompts(text: str, path: Path, wanted: PromptFormat | None) -> tuple[Prompt, ...]:
    """Of a file with one row a line, or with a list of rows; `wanted` None goes by the first row.

    Raises `SpecError` with file and line where a row asks nothing.
    """
    found: dict[str, Prompt] = {}
    kind = wanted
    for where, row in _rows(text, path):
        kind = kind or _recognised(row, where)
        prompt = _prompt(SHAPES[kind], row, where, skip=kind in _SKIPPED)
        if prompt is not None and found.setdefault(prompt.id, prompt) is not prompt:
            raise SpecError(f"{where}: two prompts have the id `{prompt.id}`", hint=HINT)
    if not found:
        raise SpecError(f"{path} asks nothing", hint=HINT)
    return tuple(found.values())


def _rows(text: str, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row and where it stands: `file:line`, or `file: row n` in a list."""
    if text.lstrip().startswith("["):
        places = ((f"{path}: row {n}", row) for n, row in enumerate(_parsed(text, str(path)), 1))
    else:
        numbered = ((f"{path}:{n}", line) for n, line in enumerate(text.splitlines(), 1))
        places = ((where, _parsed(line, where)) for where, line in numbered if line.strip())
    for where, row in places:
        if not isinstance(row, dict):
            raise SpecError(f"{where}: is not an object", hint=HINT)
        yield where, row


def _parsed(text: str, where: str) -> Any:  # noqa: ANN401 - what JSON holds
    try:
        return json.loads(text)
    except ValueError as error:
        raise SpecError(f"{where}: is not JSON: {error}", hint=HINT) from None


def _recognised(row: Mapping[str, Any], where: str) -> PromptFormat:
    for name, shape in SHAPES.items():
        if all(mark in row for mark in shape.marks):
            return name
    keys = ", ".join(sorted(row)) or "none"
    raise SpecError(f"{where}: is no row of a known data set: its keys are {keys}", hint=HINT)


def _prompt(shape: Shape, row: Mapping[str, Any], where: str, *, skip: bool) -> Prompt | None:
    missing = [mark for mark in shape.marks if mark not in row]
    if missing:
        raise SpecError(f"{where}: key `{missing[0]}` is missing", hint=HINT)
    text = shape.ask(row)
    if isinstance(text, str) and _TO_FETCH in text:
        raise SpecError(
            f"{where}: its text is still at its source", hint="run the data set's own `prepare.py`"
        )
    if isinstance(text, str) and text.strip():
        line = where.rpartition(":")[2].removeprefix(" row ")
        return Prompt(id=str(row.get(shape.name, line)) if shape.name else line, text=text)
    if skip:
        return None
    raise SpecError(f"{where}: asks nothing", hint=HINT)

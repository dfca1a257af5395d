"""What is asked: a shipped set by name, a user's own, a data set of the field; and when."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, ValidationError

from ddops.bench import datasets
from ddops.bench.arrivals import SendTimes, poisson, read_trace
from ddops.bench.client import Question
from ddops.bench.datasets import Prompt
from ddops.errors import SpecError
from ddops.spec.base import Word
from ddops.spec.complaint import complaint
from ddops.spec.matrix import Load, Pace

_SHIPPED = Path(__file__).parent / "prompts"
_EXAMPLE = '{"id": "mine", "licence": "...", "prompts": [{"id": "1", "text": "..."}]}'
_UNKNOWN = "unknown"
_CHARACTERS = 4  # of a token of English, about: what was really read is in the record


class _Own(Prompt):
    text: str = Field(min_length=1)


class _File(Word):
    id: str
    licence: str
    about: str = ""
    source: str = ""
    prompts: tuple[_Own, ...] = Field(min_length=1)


@dataclass(frozen=True)
class PromptSet:
    id: str
    licence: str
    sha256: str  # of the file, so that `sha256sum` gives the same
    prompts: tuple[Prompt, ...]
    times: SendTimes | None = None  # of a trace

    @property
    def trace_sha256(self) -> str | None:
        return self.times.sha256 if self.times else None


def load_prompts(load: Load, trace: str | None = None) -> PromptSet:
    """A shipped set when `load.prompts` is its name, else the file at that path; `trace` is one."""
    shipped = _SHIPPED / f"{load.prompts}.json"
    path = shipped if shipped.is_file() else Path(load.prompts)
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as missing:
        names = ", ".join(f"`{name}`" for name in shipped_names())
        raise SpecError(
            f"no prompts at {load.prompts}: {missing.strerror}",
            hint=f"use one of the shipped sets {names}, or the path of a JSON file",
        ) from missing
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not text: {error}", hint=datasets.HINT) from None
    read = _own(data, path) if _is_own(text, load) else _dataset(text, data, path, load)
    times = read_trace(Path(trace)) if trace else None
    return replace(read, prompts=_drawn(read.prompts, load, path), times=times)


def shipped_names() -> list[str]:
    return sorted(path.stem for path in _SHIPPED.glob("*.json"))


def questions(prompts: PromptSet, load: Load, pace: Pace) -> list[Question]:
    """As many questions as the load asks at this pace, in the set's order, round and round.

    In an open loop each has its time; a trace has no more of them than it names.
    """
    if pace.arrivals == "trace":
        return _traced(prompts, load)
    asked = [_question(prompts, load, n) for n in range(load.asked(pace))]
    if pace.rate is None:
        return asked
    due = poisson(len(asked), pace.rate, load.seed)
    return [replace(question, due_s=at) for question, at in zip(asked, due, strict=True)]


def warm_up(prompts: PromptSet, load: Load) -> list[Question]:
    """Same kind of text but another beginning, so that no prefix cache learns what is measured."""
    asked = [_question(prompts, load, n) for n in range(load.warmup)]
    return [replace(q, text=f"({n}) {q.text}") for n, q in enumerate(asked)]


def _question(prompts: PromptSet, load: Load, n: int) -> Question:
    prompt = prompts.prompts[n % len(prompts.prompts)]
    return Question(prompt.id, prompt.text, load.max_tokens, load.temperature, load.seed + n)


def _traced(prompts: PromptSet, load: Load) -> list[Question]:
    assert prompts.times is not None, "a matrix with a trace has read it"
    asked = []
    for n, send in enumerate(prompts.times.sends[: load.requests]):
        plain = _question(prompts, load, n)
        own = Prompt(id=f"trace-{n + 1}", text=send.prompt) if send.prompt else None
        if send.input_tokens is not None:
            text = _as_long_as(plain.text, send.input_tokens * _CHARACTERS)
            own = Prompt(id=f"{plain.prompt}-{send.input_tokens}", text=text)
        asked.append(
            replace(
                plain,
                prompt=own.id if own else plain.prompt,
                text=own.text if own else plain.text,
                max_tokens=min(send.max_tokens or load.max_tokens, load.max_tokens),
                due_s=send.at_s,
            )
        )
    return asked


def _as_long_as(text: str, characters: int) -> str:
    """`text` again and again, cut to `characters`."""
    return (f"{text} " * (characters // (len(text) + 1) + 1))[:characters]


def _drawn(prompts: tuple[Prompt, ...], load: Load, path: Path) -> tuple[Prompt, ...]:
    """Those that are not too long; `load.sample` of them, by the seed."""
    fit = [p for p in prompts if load.longest is None or len(p.text) <= load.longest]
    if not fit:
        raise SpecError(
            f"{path}: every prompt is longer than {load.longest} characters",
            hint="raise `longest` in the matrix",
        )
    if load.sample is None:
        return tuple(fit)
    if load.sample > len(fit):
        raise SpecError(
            f"{path}: {load.sample} prompts are to be drawn, but {len(fit)} fit",
            hint="lower `sample` in the matrix, or raise `longest`",
        )
    return tuple(random.Random(load.seed).sample(fit, load.sample))


def _is_own(text: str, load: Load) -> bool:
    """Our own shape is one JSON object; what cannot be read is told as if it were ours."""
    if load.format is not None or text.lstrip().startswith("["):
        return False
    try:
        return not _known(json.loads(text))
    except ValueError:
        first = text.strip().partition("\n")[0]
        try:
            return not isinstance(json.loads(first), dict)
        except ValueError:
            return True


def _known(row: object) -> bool:
    """A data set of one row is an object too."""
    marks = (shape.marks for shape in datasets.SHAPES.values())
    return isinstance(row, dict) and any(set(each) <= row.keys() for each in marks)


def _dataset(text: str, data: bytes, path: Path, load: Load) -> PromptSet:
    found = datasets.prompts(text, path, load.format)
    return PromptSet(path.stem, load.licence or _UNKNOWN, hashlib.sha256(data).hexdigest(), found)


def _own(data: bytes, path: Path) -> PromptSet:
    try:
        read = _File.model_validate_json(data)
    except ValidationError as wrong:
        first = complaint(wrong)
        raise SpecError(
            f"{path}: {first.where}: {first.message}",
            hint=f"a prompt file looks like `{_EXAMPLE}`",
        ) from wrong
    doubled = [id for id, count in Counter(p.id for p in read.prompts).items() if count > 1]
    if doubled:
        raise SpecError(
            f"{path}: two prompts have the id `{doubled[0]}`", hint="give every prompt its own id"
        )
    return PromptSet(read.id, read.licence, hashlib.sha256(data).hexdigest(), read.prompts)

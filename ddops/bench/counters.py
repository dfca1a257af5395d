"""The engine's own counters, read from `/metrics` before and after the window.

Only differences are ever used: a counter's value since the engine started says nothing about
the window. Each engine's names stand in `ddops/engines`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ddops.engines.base import Counters
from ddops.engines.samples import by_label, name_of
from ddops.engines.table import ENGINES
from ddops.host.reply import Service, Unanswered

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+\d+)?$")
_NOT_COUNTERS = ("_bucket", "_created")


@dataclass(frozen=True)
class Speculation:
    """Counter differences over one window; None where the engine has no such counter."""

    steps: int | None
    drafted: int | None
    accepted: int | None
    per_position: tuple[int, ...]
    generated: int | None


def parse(text: str) -> dict[str, float]:
    """Samples of the engines we know, by name and labels as they stand in the text."""
    samples = {}
    for line in text.splitlines():
        if (sample := _SAMPLE.match(line)) and _wanted(sample[1]):
            samples[sample[1] + (sample[2] or "")] = float(sample[3])
    return samples


def scrape(service: Service) -> dict[str, float]:
    """Empty when the service has no `/metrics` or is gone: then nothing is derived from it."""
    try:
        reply = service.get("/metrics")
    except Unanswered:
        return {}
    return parse(reply.text) if reply.status == 200 else {}


def speculation(before: Mapping[str, float], after: Mapping[str, float]) -> Speculation:
    names = _names_in(after)
    if names is None:
        return Speculation(None, None, None, (), None)

    def difference(name: str | None) -> int | None:
        return _difference(name, before, after) if name else None

    steps, generated = difference(names.steps), difference(names.generated)
    accepted = difference(names.accepted)
    if names.accepted is None and steps:
        accepted = _from_answers(generated, difference(names.finished), steps)
    return Speculation(
        steps=steps,
        drafted=difference(names.drafted),
        accepted=accepted,
        per_position=_by_position(names.per_position, before, after),
        generated=generated,
    )


def _from_answers(generated: int | None, finished: int | None, steps: int) -> int | None:
    """A request's first token is its prompt's; a step gave one more than it accepted."""
    if generated is None or finished is None:
        return None
    return max(generated - finished - steps, 0)


def _wanted(name: str) -> bool:
    return name.partition(":")[0] in ENGINES and not name.endswith(_NOT_COUNTERS)


def _names_in(samples: Mapping[str, float]) -> Counters | None:
    seen = {key.partition(":")[0] for key in samples}
    return next((engine.counters for name, engine in ENGINES.items() if name in seen), None)


def _difference(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> int | None:
    """Over all label sets. A counter that went down belongs to a restarted engine."""
    last = [value for key, value in after.items() if name_of(key) == name]
    first = [value for key, value in before.items() if name_of(key) == name]
    difference = sum(last) - sum(first)
    return int(difference) if last and difference >= 0 else None


def _by_position(
    name: str | None, before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[int, ...]:
    counts = by_label(name, "position", before, after) if name else {}
    return tuple(counts.get(position, 0) for position in range(max(counts, default=-1) + 1))

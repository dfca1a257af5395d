"""The engine's own counters, read from `/metrics` before and after the window.

Only differences are ever used: a counter's value since the engine started says nothing about
the window. Each engine's names are one line of `ENGINES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+\d+)?$")
_POSITION = re.compile(r'position="(\d+)"')
_NOT_COUNTERS = ("_bucket", "_created")


@dataclass(frozen=True)
class Names:
    """What an engine calls the counters that speculation is judged by."""

    steps: str  # verify steps, one per sequence and target forward
    drafted: str
    accepted: str
    per_position: str  # accepted drafts with a label `position`
    generated: str


ENGINES = {
    "ddtree": Names(
        steps="ddtree:spec_decode_num_drafts_total",
        drafted="ddtree:spec_decode_num_draft_tokens_total",
        accepted="ddtree:spec_decode_num_accepted_tokens_total",
        per_position="ddtree:spec_decode_num_accepted_tokens_per_pos_total",
        generated="ddtree:generation_tokens_total",
    ),
    "vllm": Names(
        steps="vllm:spec_decode_num_drafts_total",
        drafted="vllm:spec_decode_num_draft_tokens_total",
        accepted="vllm:spec_decode_num_accepted_tokens_total",
        per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
        generated="vllm:generation_tokens_total",
    ),
}


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


async def scrape(client: httpx.AsyncClient) -> dict[str, float]:
    """Empty when the service has no `/metrics` or is gone: then nothing is derived from it."""
    try:
        response = await client.get("/metrics", timeout=10.0)
    except httpx.TransportError:
        return {}
    return parse(response.text) if response.is_success else {}


def speculation(before: Mapping[str, float], after: Mapping[str, float]) -> Speculation:
    names = _names_in(after)
    if names is None:
        return Speculation(None, None, None, (), None)
    return Speculation(
        steps=_difference(names.steps, before, after),
        drafted=_difference(names.drafted, before, after),
        accepted=_difference(names.accepted, before, after),
        per_position=_by_position(names.per_position, before, after),
        generated=_difference(names.generated, before, after),
    )


def _wanted(name: str) -> bool:
    return name.partition(":")[0] in ENGINES and not name.endswith(_NOT_COUNTERS)


def _names_in(samples: Mapping[str, float]) -> Names | None:
    engines = {key.partition(":")[0] for key in samples}
    return next((names for engine, names in ENGINES.items() if engine in engines), None)


def _difference(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> int | None:
    """Over all label sets. A counter that went down belongs to a restarted engine."""
    last = [value for key, value in after.items() if _name(key) == name]
    first = [value for key, value in before.items() if _name(key) == name]
    difference = sum(last) - sum(first)
    return int(difference) if last and difference >= 0 else None


def _by_position(
    name: str, before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[int, ...]:
    counts: dict[int, float] = {}
    for sign, samples in ((1, after), (-1, before)):
        for key, value in samples.items():
            if _name(key) == name and (label := _POSITION.search(key)):
                position = int(label[1])
                counts[position] = counts.get(position, 0.0) + sign * value
    return tuple(int(counts.get(position, 0)) for position in range(max(counts, default=-1) + 1))


def _name(key: str) -> str:
    return key.partition("{")[0]

"""A bundle and its replay: is every number where the first one's was, every answer the same. Pure.

"Where" is an interval: a ratio is off when even the end of its 95 % interval that is nearer to 1
lies outside the tolerance. A ratio without an interval, of one repeat, has to lie inside itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ddops.analysis.compare import verdict
from ddops.analysis.pairs import Comparison, Line
from ddops.bundle.bag import Finding
from ddops.bundle.recheck import INFO
from ddops.spec.bundle import BundleInfo
from ddops.spec.record import Record, Trace

_FEW: Final = 5  # prompts that are named


def linked(replay: BundleInfo, name: str, sha256: str) -> Iterator[Finding]:
    """`name` and `sha256` (of the tag manifest) are of the bundle that it should repeat."""
    based = replay.based_on
    if based is None:
        yield Finding(INFO, f"is no replay of {name}: it is based on nothing", "L5")
    elif based.sha256 != sha256:
        other = f"{based.name}, sha256 {based.sha256[:12]}"
        yield Finding(INFO, f"is no replay of {name}, sha256 {sha256[:12]}, but of {other}", "L5")


def alike(
    before: Mapping[str, Record], now: Mapping[str, Record], seen: Comparison, tolerance: float
) -> Iterator[Finding]:
    """Records by cell id, the last attempt at each; `seen` compares the two runs, `now` as B.

    What was not repeated is not judged; that nothing was is a finding.
    """
    for reason in seen.reasons:
        yield Finding("data/run.json", reason, "L5")
    both = [cell for cell in before if cell in now]
    if not both:
        yield Finding("data/records", "not one cell of the first bundle was measured again", "L5")
    for cell in both:
        was, is_now = verdict(before[cell]), verdict(now[cell])
        if was != is_now:
            yield Finding(_file(cell), f"was {was}, and is now {is_now}", "L5")
    for line in seen.lines:
        if not _within(line, tolerance):
            yield Finding(_file(line.cell, "*"), _off(line, tolerance), "L5")


def same_answers(before: Mapping[str, Record], now: Mapping[str, Record]) -> Iterator[Finding]:
    """Greedy decoding of one model leaves no choice: prompt by prompt, token count and text."""
    for cell, record in before.items():
        if cell not in now or not (record.ok and now[cell].ok):
            continue
        if record.load.temperature > 0 or now[cell].load.temperature > 0:
            yield Finding(_file(cell), "was sampled: only greedy answers must be the same", "L6")
            continue
        old, new = _answers(record), _answers(now[cell])
        asked = sorted({*old} & {*new})
        other = [prompt for prompt in asked if old[prompt] != new[prompt]]
        if not asked:
            yield Finding(_file(cell), "has no prompt in common with its replay", "L6")
        elif other:
            named = ", ".join(other[:_FEW]) + (", …" if other[_FEW:] else "")
            said = f"{len(other)} of {len(asked)} answers are other ones: {named}"
            yield Finding(_file(cell), said, "L6")


def _answers(record: Record) -> dict[str, tuple[int | None, str | None]]:
    answered: list[Trace] = [trace for trace in record.traces if trace.error is None]
    return {trace.prompt: (trace.completion_tokens, trace.text_sha256) for trace in answered}


def _within(line: Line, tolerance: float) -> bool:
    ratio = line.b / line.a
    low, high = (line.effect.low, line.effect.high) if line.effect else (ratio, ratio)
    return low <= 1 + tolerance and high >= 1 / (1 + tolerance)


def _off(line: Line, tolerance: float) -> str:
    effect = line.effect
    interval = f" ({effect.low:.2f} to {effect.high:.2f})" if effect else ""
    ratio = effect.ratio if effect else line.b / line.a
    return (
        f"{line.metric} was {line.a:.4g}, is now {line.b:.4g}: {ratio:.2f} times{interval} over "
        f"{line.over}, {1 / (1 + tolerance):.2f} to {1 + tolerance:.2f} is asked for"
    )


def _file(cell: str, repeat: str = "") -> str:
    return f"data/records/{cell}{f'.{repeat}' if repeat else ''}.json"

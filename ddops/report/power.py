"""What the cells drew and what limited them: a table with its reasons. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ddops.analysis.claims import Claim
from ddops.analysis.effort import Effort, effort
from ddops.analysis.repeats import Group
from ddops.report.rows import ABSENT, Value, number

COLUMNS: Final = (
    "variant",
    "C",
    "W mean / peak",
    "J/token",
    "GPU busy",
    "throttled",
    "cores used",
    "limited by",
)


@dataclass(frozen=True)
class Power:
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    reasons: tuple[Claim, ...]
    notes: tuple[str, ...]  # what could not be read, and why an energy is not told


def power(groups: Sequence[Group]) -> Power | None:
    """Of the median record of each group; None where nothing was sampled."""
    told = [(group, one) for group in groups if (one := _effort(group)) is not None]
    if not told:
        return None
    rows = [_row(group, one) for group, one in told]
    known = [place for place in range(len(COLUMNS)) if any(r[place].text != ABSENT for r in rows)]
    return Power(
        columns=tuple(COLUMNS[place] for place in known),
        rows=tuple(tuple(row[place] for place in known) for row in rows),
        reasons=tuple(claim for group, one in told if (claim := _reason(group, one)) is not None),
        notes=tuple(dict.fromkeys(note for _, one in told for note in _notes(one))),
    )


def _effort(group: Group) -> Effort | None:
    median = group.median
    return effort(median, median.telemetry) if median and median.telemetry else None


def _row(group: Group, one: Effort) -> tuple[Value, ...]:
    def value(text: str | None) -> Value:
        return Value(text, (one.cell,)) if text is not None else Value(ABSENT)

    pace = group.pace
    return (
        Value(group.variant.name, kind="name"),
        Value(str(pace.concurrency) if pace.arrivals == "closed" else str(pace)),
        value(_watts(one)),
        value(None if one.j_per_token is None else f"{one.j_per_token:.3g}"),
        value(None if one.busy is None else f"{one.busy:.0%}"),
        value(None if one.throttled is None else f"{one.throttled:.0%}"),
        value(None if one.service_cores is None else f"{one.service_cores:.1f} of {one.cores}"),
        value(one.bound),
    )


def _watts(one: Effort) -> str | None:
    if one.mean_w is None:
        return None
    peak = f" / {number(one.peak_w)}" if one.peak_w is not None else ""
    limit = f" of {number(one.limit_w)}" if one.limit_w is not None else ""
    return f"{number(one.mean_w)}{peak}{limit}"


def _reason(group: Group, one: Effort) -> Claim | None:
    if one.bottleneck is None:
        return None
    text = f"{group.pace}, {group.variant.name}: {one.bottleneck.label}. {one.bottleneck.why}"
    return Claim(text, (one.cell,))


def _notes(one: Effort) -> tuple[str, ...]:
    counted = (f"{one.cell}: {text}" for text in one.apart)
    doubts = (f"no energy of {one.cell}: {doubt}" for doubt in one.doubts)
    missing = (f"{what} not read: {why}" for what, why in one.missing.items())
    lacks = one.bottleneck.missing if one.bottleneck else ()
    wanted = (f"it would be surer with: {'; '.join(lacks)}",) if lacks else ()
    return (*wanted, *doubts, *counted, *missing)

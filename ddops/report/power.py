"""What the cells drew and what limited them: a table, its reasons, and power over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes

from ddops.analysis.claims import Claim
from ddops.analysis.effort import Effort, effort
from ddops.analysis.repeats import Group
from ddops.report.plots import Plot, drawn, names_of, series_of
from ddops.report.rows import ABSENT, Value, number
from ddops.spec.record import Record
from ddops.spec.telemetry import Number

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


def over_time(groups: Sequence[Group]) -> Plot | None:
    """Power, or without GPUs and packages the cores of the service, at the most load measured."""
    told = [(group, group.median) for group in groups if group.median and group.median.telemetry]
    if not told:
        return None
    last = told[-1][0].pace
    curves = [(group, *_curve(record)) for group, record in told if group.pace == last]
    curves = [curve for curve in curves if any(value is not None for value in curve[2])]
    if not curves:
        return None
    names, unit = names_of(groups), curves[0][3]

    def draw(axes: Axes) -> None:
        for group, step, values, _ in curves:
            xs = [step * (place + 0.5) for place in range(len(values))]
            ys = [float("nan") if value is None else value for value in values]
            (line,) = axes.plot(xs, ys, color=series_of(names, group.variant.name), linewidth=1.2)
            assert group.median is not None, "only measured groups are drawn"
            line.set_url(f"#cell-{group.median.cell.id}")
        axes.margins(y=0.15)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds of the measured window")
        axes.set_ylabel(unit)

    shown = tuple(dict.fromkeys(group.variant.name for group, *_ in curves))
    title = "Load over time" if unit == _CORES else "Power over time"
    return Plot(title, drawn("power", draw, shown, names), f"{_CAPTIONS[unit]}, at {last}.")


_CORES: Final = "cores"
_CAPTIONS: Final = {
    "W": "What the GPUs that serve draw together",
    "W, CPU": "What the CPU packages draw together",
    _CORES: "Cores that the service's processes take; this box tells no power",
}


def _curve(record: Record) -> tuple[float, Sequence[Number], str]:
    """Seconds of a part, a value for each, and what they are."""
    curve = record.telemetry.curve if record.telemetry else None
    if curve is None:
        return 1.0, (), _CORES
    kinds = {"W": curve.watts, "W, CPU": curve.package_watts, _CORES: curve.cores}
    unit = next((unit for unit, values in kinds.items() if values), _CORES)
    return curve.step_s, kinds[unit], unit


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

"""Estimates as tables and lines to read on a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ddops.analysis.cost import rank
from ddops.analysis.cost.estimate import Estimate
from ddops.analysis.cost.field import Line
from ddops.analysis.cost.fit import Held
from ddops.analysis.cost.predict import Fitted
from ddops.analysis.cost.range import Range
from ddops.analysis.cost.rank import Projected
from ddops.analysis.cost.unknown import UNKNOWN


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...]  # columns of numbers


Text = Sequence[Table | str]

_STREAMING = "tok/s while answers stream: prompts come on top, and prefills of other requests"


def step_text(made: Sequence[Estimate]) -> Text:
    """The estimates side by side, each taken apart, then what they rest on."""
    parts: list[Table | str] = [_steps(made)]
    for one in made:
        parts += ["", _parts(one)]
    assumed = dict.fromkeys(text for one in made for text in one.assumptions)
    parts += ["", "assumed:", *(f"  {text}" for text in assumed)]
    if any(one.step_s is None for one in made):
        parts += ["", "no step where no measured cell tells its dispatch: only the floor is known"]
    return [*parts, "", "not known:", *(f"  {text}" for text in UNKNOWN)]


def fit_text(found: Fitted) -> Text:
    """Costs, what the fit said of steps it had not seen, and what was asked for."""
    on = found.observed.on
    memory = f"bytes at {on.tb_s:g} TB/s" if on else "its memory is not known: no bytes"
    costs = tuple((name, f"{cost * 1e3:.4f}") for name, cost in found.fit.costs.items())
    parts: list[Table | str] = [
        f"{found.observed.source}: {len(found.observed.timed)} steps, {memory}",
        *(f"left out: {text}" for text in found.observed.left_out),
        "",
        Table(("beyond the bytes", "ms"), costs, right=("ms",)),
    ]
    for title, held in (
        ("held out alone", found.by_cell),
        ("held out with its concurrency", found.by_concurrency),
    ):
        parts += ["", _held(title, held)] if held else []
    reasons = dict.fromkeys(one.why for one in found.predictions)
    return [*parts, "", _predictions(found), *reasons, _STREAMING]


def rank_text(made: Sequence[Projected]) -> Text:
    """One table a GPU, then how its all-reduce was reckoned, then what is not known."""
    parts: list[Table | str] = []
    for name in dict.fromkeys(one.on.name for one in made):
        here = [one for one in made if one.on.name == name]
        whys = dict.fromkeys(f"all-reduce: {one.why}" for one in here)
        parts += [_projected(here), *whys, f"{name}: {here[0].on.source}", ""]
    return [*parts, _STREAMING, "", "not known:", *(f"  {text}" for text in rank.UNKNOWN)]


def _projected(made: Sequence[Projected]) -> Table:
    there = made[0].on.name
    columns = (
        "budget",
        "C",
        "measured ms",
        "its floor",
        f"on {there}",
        "all-reduce",
        "step ms",
        "accept",
        "tok/s",
        "the record",
    )
    rows = tuple(
        (
            str(one.row.case.budget or "ar"),
            str(one.row.case.batch),
            f"{one.row.step_ms:.2f}",
            f"{one.row.floor_ms:.2f}",
            _shown(one.rank_s, 1e3),
            _shown(one.all_reduce_s, 1e3),
            _shown(one.step_s, 1e3),
            _shown(one.accept),
            _shown(one.tok_s, digits=0),
            f"{one.record.tok_s:g}" if one.record else "-",
        )
        for one in made
    )
    return Table(columns, rows, right=columns)


def field_text(made: Sequence[Line]) -> Text:
    rows = tuple(
        (
            one.what,
            one.working,
            f"{_shown(one.ours)} {one.unit}".strip(),
            f"{_as_written(one.said)} {one.unit}".strip() if one.said else "-",
            one.note,
        )
        for one in made
    )
    columns = ("what", "working", "ours", "the record", "note")
    return [Table(columns, rows, right=("ours", "the record"))]


def _steps(made: Sequence[Estimate]) -> Table:
    columns = ("budget", "C", "floor ms", "step ms", "accept", "tok/s", "bytes allow tok/s")
    rows = tuple(
        (
            str(one.case.budget or "ar"),
            str(one.case.concurrency),
            f"{one.floor_s * 1e3:.2f}",
            _shown(one.step_s, 1e3),
            _shown(one.accept),
            _shown(one.tok_s, digits=0),
            f"{one.at_most_tok_s:.0f}" if one.at_most_tok_s else "-",
        )
        for one in made
    )
    return Table(columns, rows, right=columns)


def _parts(one: Estimate) -> Table:
    title = f"budget {one.case.budget}" if one.case.budget else "autoregressive"
    rows = tuple((part.name, _shown(part.seconds, 1e3), part.why) for part in one.parts)
    return Table((title, "ms", "from"), rows, right=("ms",))


def _held(title: str, held: Sequence[Held]) -> Table:
    errors = [abs(one.error) for one in held]
    rows = tuple(
        (
            one.name,
            f"{one.measured_s * 1e3:.3f}",
            f"{one.predicted_s * 1e3:.3f}",
            f"{one.error:+.1%}",
            ", ".join(one.beyond),
        )
        for one in held
    )
    last = ("median and worst error", "", f"{median(errors):.1%}", f"{max(errors):.1%}", "")
    columns = (title, "measured ms", "predicted ms", "error", "extrapolates")
    return Table(columns, (*rows, last), right=columns[1:4])


def _predictions(found: Fitted) -> Table:
    columns = ("predicted budget", "C", "step ms", "accept", "tok/s", "extrapolates")
    rows = tuple(
        (
            str(one.budget or "ar"),
            str(one.concurrency),
            _shown(one.step_s, 1e3),
            _shown(one.accept),
            _shown(one.tok_s, digits=0),
            ", ".join(one.beyond),
        )
        for one in found.predictions
    )
    return Table(columns, rows, right=columns[1:5])


def _shown(one: Range | None, factor: float = 1.0, digits: int = 2) -> str:
    if one is None:
        return "-"
    low, high = (f"{end * factor:.{digits}f}" for end in (one.low, one.high))
    return low if low == high else f"{low} to {high}"


def _as_written(one: Range) -> str:
    return f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}"

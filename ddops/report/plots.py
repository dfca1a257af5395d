"""The plots of a report's results, each with a sentence of what it shows; every point is a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ddops.analysis.repeats import Group, user_tok_s
from ddops.report.svg import INK, SERIES, inline, style
from ddops.spec.matrix import Pace
from ddops.spec.record import Metrics

_SIZE = (4.6, 3.0)  # inches; small, so that the text stays readable at phone width
_HEADROOM = 0.15
_COLUMNS = 4  # of a legend; it is read along its rows and filled along its columns
_MARKS = ("o", "s", "^", "D", "v", "P")  # by pace


@dataclass(frozen=True)
class Plot:
    title: str
    svg: str
    caption: str


def plots(groups: Sequence[Group]) -> tuple[Plot, ...]:
    """Those that the records have numbers for."""
    drawers = (throughput, latency, accept, positions)
    return tuple(plot for drawer in drawers if (plot := drawer(groups)) is not None)


def throughput(groups: Sequence[Group]) -> Plot | None:
    ladder = _ladder(groups)
    names = names_of(groups)
    if not any(group.good for group in groups):
        return None

    def draw(axes: Axes) -> None:
        width = 0.8 / len(names)
        for group in groups:
            column = names.index(group.variant.name)
            x = ladder.index(group.pace) + (column - (len(names) - 1) / 2) * width
            if group.median is None:
                word = group.verdict.partition(":")[0]
                axes.text(x, 0, f" {word}", rotation=90, ha="center", va="bottom", fontsize=8)
                continue
            _bar(axes, group, x, width * 0.92, _colour(names, group))
        axes.set_xticks(range(len(ladder)), [str(pace) for pace in ladder])
        axes.set_xlim(-0.5, len(ladder) - 0.5)
        axes.set_ylabel("tok/s")
        axes.grid(visible=False, axis="x")

    whiskers = any(len(group.good) > 1 for group in groups)
    caption = "Output tokens per second of the whole service, by variant and pace."
    caption += " Whiskers: lowest to highest repeat." if whiskers else ""
    return Plot("Throughput", drawn("throughput", draw, names), caption)


def latency(groups: Sequence[Group]) -> Plot | None:
    names = names_of(groups)
    ladder = _ladder(groups)
    points = [group for group in groups if group.median and user_tok_s(_of(group))]
    if not points:
        return None

    def draw(axes: Axes) -> None:
        for name in names:
            own = [group for group in points if group.variant.name == name]
            xs = [user_tok_s(_of(group)) or 0.0 for group in own]
            ys = [_of(group).output_tok_s for group in own]
            colour = series_of(names, name)
            axes.plot(xs, ys, color=colour, linewidth=1.2)
            for group, x, y in zip(own, xs, ys, strict=True):
                mark = _MARKS[ladder.index(group.pace) % len(_MARKS)]
                axes.scatter([x], [y], color=colour, s=30, marker=mark).set_urls([_anchor(group)])
        for mark, pace in zip(_MARKS, ladder, strict=False):
            axes.scatter([], [], color=INK, s=30, marker=mark, label=str(pace))
        axes.legend(fontsize=9, loc="best", handletextpad=0.2)
        axes.margins(x=_HEADROOM, y=_HEADROOM)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tok/s that one user sees (1 / TPOT p50)")
        axes.set_ylabel("tok/s of the service")

    caption = "What a user gives up for what the service gains: up and to the right is better."
    return Plot(
        "Throughput against latency", drawn("latency", draw, shown(names, points), names), caption
    )


def accept(groups: Sequence[Group]) -> Plot | None:
    ladder = _ladder(groups)
    lines = {pace: [g for g in groups if g.pace == pace and _has_budget(g)] for pace in ladder}
    lines = {pace: own for pace, own in lines.items() if len(own) > 1}
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        for number, (pace, own) in enumerate(lines.items()):
            own.sort(key=lambda group: group.variant.budget or 0)
            xs = [group.variant.budget or 0 for group in own]
            ys = [_of(group).accept or 0.0 for group in own]
            colour = SERIES[1 + number % (len(SERIES) - 1)]
            mark = _MARKS[number % len(_MARKS)]
            under = len(lines) - 1 - number  # lines may lie on each other: the lower is the wider
            axes.plot(xs, ys, color=colour, linewidth=1.2 + 2 * under, marker=mark, label=str(pace))
            size = 28 + 50 * under
            axes.scatter(xs, ys, color=colour, s=size, marker=mark).set_urls([*map(_anchor, own)])
        budgets = sorted({g.variant.budget or 0 for own in lines.values() for g in own})
        axes.set_xscale("log", base=2)
        axes.set_xticks(budgets, [str(budget) for budget in budgets])
        axes.minorticks_off()
        axes.margins(y=_HEADROOM)
        axes.set_ylim(bottom=1)
        axes.set_xlabel("budget (nodes besides the root)")
        axes.set_ylabel("accept")
        axes.legend(fontsize=9)

    caption = "Mean tokens committed per target step, bonus included, by budget; 1 is no gain."
    return Plot("Accept by budget", drawn("accept", draw, ()), caption)


def positions(groups: Sequence[Group]) -> Plot | None:
    names = names_of(groups)
    told = [g for g in groups if g.median and _of(g).accepted_per_position]
    if not told:
        return None
    lowest = _ladder(told)[0]
    told = [group for group in told if group.pace == lowest]

    def draw(axes: Axes) -> None:
        deepest = 1
        for group in told:
            shares = _of(group).accepted_per_position or ()
            deepest = max(deepest, len(shares))
            xs = range(1, len(shares) + 1)
            colour = _colour(names, group)
            axes.plot(xs, [100 * share for share in shares], color=colour, marker="o", ms=4)
        axes.set_xticks(range(1, deepest + 1))
        axes.margins(y=_HEADROOM)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("draft position")
        axes.set_ylabel("% of verify steps")

    caption = f"How many verify steps accept a draft this deep, at {lowest}."
    return Plot(
        "Acceptance by position",
        drawn("positions", draw, tuple(group.variant.name for group in told), names),
        caption,
    )


def _bar(axes: Axes, group: Group, x: float, width: float, colour: str) -> None:
    value = _of(group).output_tok_s
    low, high = min(group.throughputs), max(group.throughputs)
    bars = axes.bar(x, value, width, color=colour)
    bars[0].set_url(_anchor(group))
    if len(group.good) > 1:
        axes.errorbar(x, value, [[value - low], [high - value]], color=INK, capsize=2)


def drawn(
    name: str,
    draw: Callable[[Axes], None],
    legend: Sequence[str],
    names: Sequence[str] | None = None,
) -> str:
    """A figure with a legend line above it for `legend`, coloured by the place in `names`."""
    with style():
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        keys = [Patch(color=series_of(names or legend, label), label=label) for label in legend]
        by_column = [key for first in range(_COLUMNS) for key in keys[first::_COLUMNS]]
        if keys:
            figure.legend(
                handles=by_column,
                loc="outside upper left",
                ncols=_COLUMNS,
                fontsize=9,
                handlelength=0.7,
            )
        return inline(figure, name)


def _ladder(groups: Sequence[Group]) -> tuple[Pace, ...]:
    """Closed loops by C, then rates, then a trace."""
    paces = {group.pace for group in groups}
    return tuple(sorted(paces, key=lambda pace: (pace.arrivals, pace.concurrency, pace.rate or 0)))


def names_of(groups: Sequence[Group]) -> tuple[str, ...]:
    """Variants in the order of the matrix, `ar` first so that it keeps its colour."""
    ordered = sorted(groups, key=lambda group: group.variant.mode != "ar")
    return tuple(dict.fromkeys(group.variant.name for group in ordered))


def shown(names: Sequence[str], groups: Sequence[Group]) -> tuple[str, ...]:
    """Those of `names` that some of these groups are of."""
    return tuple(name for name in names if any(g.variant.name == name for g in groups))


def series_of(names: Sequence[str], name: str) -> str:
    return SERIES[names.index(name) % len(SERIES)]


def _colour(names: Sequence[str], group: Group) -> str:
    return series_of(names, group.variant.name)


def _anchor(group: Group) -> str:
    assert group.median is not None, "only measured groups are drawn"
    return f"#cell-{group.median.cell.id}"


def _of(group: Group) -> Metrics:
    assert group.median is not None and group.median.metrics is not None
    return group.median.metrics


def _has_budget(group: Group) -> bool:
    """An adaptive variant has another budget at every step."""
    variant = group.variant
    drafted = variant.mode == "ddtree" and variant.budget is not None and not variant.adaptive
    return drafted and group.median is not None and _of(group).accept is not None

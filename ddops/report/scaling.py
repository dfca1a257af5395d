"""How the service scales with C, and what its steps are made of: two plots. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.axes import Axes

from ddops.analysis.cost.breakdown import Breakdown
from ddops.analysis.repeats import Group
from ddops.report.plots import Plot, drawn, names_of, series_of, shown
from ddops.report.svg import FAINT, INK, SERIES

_WIDEST = 12  # bars that a phone can tell apart


def scaling(groups: Sequence[Group]) -> Plot | None:
    """None below two closed loops: one point scales nowhere."""
    points = [g for g in groups if g.pace.arrivals == "closed" and g.median and g.median.metrics]
    ladder = sorted({group.concurrency for group in points})
    if len(ladder) < 2:
        return None
    names = names_of(groups)

    def draw(axes: Axes) -> None:
        for name in names:
            own = sorted((g for g in points if g.variant.name == name), key=lambda g: g.concurrency)
            xs, ys = [g.concurrency for g in own], [_tok_s(g) for g in own]
            colour = series_of(names, name)
            axes.plot(xs, ys, color=colour, linewidth=1.2)
            urls = [f"#cell-{g.median.cell.id}" for g in own if g.median]
            axes.scatter(xs, ys, color=colour, s=24).set_urls(urls)
            if own and name == names[0]:
                ideal = [ys[0] * c / xs[0] for c in ladder]
                axes.plot(ladder, ideal, color=FAINT, linewidth=1.2, linestyle="--", zorder=0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(ladder, [str(c) for c in ladder])
        _plain(axes, [_tok_s(group) for group in points])
        axes.minorticks_off()
        axes.set_xlabel("C, requests in flight")
        axes.set_ylabel("tok/s of the service")

    caption = (
        f"Output tok/s by C, both logarithmic. Dashed: what {names[0]} makes at C={ladder[0]}, "
        "times C; the further below it, the less a further request adds."
    )
    return Plot("Scaling with C", drawn("scaling", draw, shown(names, points), names), caption)


def steps(found: Breakdown | None) -> Plot | None:
    if found is None:
        return None
    shown = found.steps[:_WIDEST]
    terms = [
        name for name in found.steps[0].parts if any(one.parts[name] > 0 for one in found.steps)
    ]
    names = (*terms, *(f"unused {n}" for n in range(len(SERIES) - len(terms))))

    def draw(axes: Axes) -> None:
        for row, one in enumerate(shown):
            lengths = [1e3 * one.parts[name] for name in terms]
            starts = [0.0, *accumulate(lengths)]
            for name, start, length in zip(terms, starts, lengths, strict=False):
                bar = axes.barh(row, length, 0.7, start, color=series_of(names, name))
                bar[0].set_url(f"#cell-{one.cell}")
            axes.plot(
                [1e3 * one.measured_s] * 2, [row - 0.45, row + 0.45], color=INK, linewidth=1.6
            )
        axes.set_yticks(range(len(shown)), [one.cell.rpartition(".")[0] for one in shown])
        axes.tick_params(axis="y", labelsize=8)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("ms a target step")

    caption = (
        "What a step is made of: its bytes at peak bandwidth where they are known, and the rest by "
        f"least squares over these cells (median error {found.error:.0%}). Mark: as measured."
    )
    return Plot("Step breakdown", drawn("steps", draw, terms, names), caption)


def _plain(axes: Axes, values: Sequence[float]) -> None:
    """Ticks at 1, 2, 5, 10, ..., as numbers and not as powers."""
    steps = (digit * 10.0**power for power in range(-1, 7) for digit in (1, 2, 5))
    ticks = [tick for tick in steps if min(values) / 2 <= tick <= max(values) * 2]
    axes.set_yticks(ticks, [f"{tick:.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks])


def _tok_s(group: Group) -> float:
    assert group.median is not None and group.median.metrics is not None
    return group.median.metrics.output_tok_s

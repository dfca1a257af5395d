"""What the cells drew over their windows, as a plot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes

from ddops.analysis.repeats import Group
from ddops.report.plots import Plot, drawn, names_of, series_of
from ddops.spec.record import Record
from ddops.spec.telemetry import Number

_CORES: Final = "cores"
_CAPTIONS: Final = {
    "W": "What the GPUs that serve draw together",
    "W, CPU": "What the CPU packages draw together",
    _CORES: "Cores that the service's processes take; this box tells no power",
}


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


def _curve(record: Record) -> tuple[float, Sequence[Number], str]:
    """Seconds of a part, a value for each, and what they are."""
    curve = record.telemetry.curve if record.telemetry else None
    if curve is None:
        return 1.0, (), _CORES
    kinds = {"W": curve.watts, "W, CPU": curve.package_watts, _CORES: curve.cores}
    unit = next((unit for unit, values in kinds.items() if values), _CORES)
    return curve.step_s, kinds[unit], unit

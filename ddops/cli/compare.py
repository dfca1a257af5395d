"""`ddops compare`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import Json, Quiet
from ddops.cli.output import Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.analysis.pairs import Comparison, Line

A = Annotated[Path, typer.Argument(metavar="A", help="A run's folder, or its bundle.")]
B = Annotated[Path, typer.Argument(metavar="B", help="Another one, that is told against A.")]


def compare(a: A, b: B, json: Json = False, quiet: Quiet = False) -> None:
    """Compare two runs cell by cell, each ratio with its interval.

    Also with its effect size. What was not measured alike is refused with its reason.

    \b
    Example:
      ddops compare results/local-1a2b3c4d results/bundles/local-demo-5e6f7a8b.tar.zst
    """
    from ddops.flows.compare import compare as pair

    out = Output(json=json, quiet=quiet)
    found = pair(a, b)
    for one in found.differences:
        out.say(f"differs: {one.what}: {one.a} in A, {one.b} in B")
    for cell in found.refused:
        out.warn(f"{cell.cell} is not compared: {cell.reason}")
    out.result(dataclasses.asdict(found), _draw(found))


def _draw(found: Comparison) -> RenderableType:
    columns = ("cell", "metric", "A", "B", "B / A", "95 % interval", "effect size", "over", "B is")
    rows = [
        (line.cell, line.metric, *_numbers(line), line.over, line.verdict) for line in found.lines
    ]
    return table(columns, rows, right=columns[2:7])


def _numbers(line: Line) -> tuple[str, ...]:
    both = (f"{line.a:.4g}", f"{line.b:.4g}")
    found = line.effect
    if found is None:
        return (*both, "-", "-", "-")
    size = "-" if found.size is None else f"{found.size:+.1f}"
    return (*both, f"{found.ratio:.3f}", f"{found.low:.3f} to {found.high:.3f}", size)

"""`ddops bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Quiet, Verbose, Yes
from ddops.cli.output import Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.analysis.compare import Row
    from ddops.analysis.effort import Effort
    from ddops.bench.expand import Estimate
    from ddops.flows.bench import Benched, Plan
    from ddops.flows.site import Site

_DEFAULT = "local"
_TYPED = "ddops.typed"
_COLUMNS = ("variant", "C", "repeat", "tok/s", "vs ar", "TTFT p50", "TPOT p50", "accept", "gate")

MatrixFile = Annotated[
    str,
    typer.Option(metavar="[FILE]", help="A YAML file; without one the matrix for this machine."),
]


class BenchCommand(TyperCommand):
    """`--matrix` without a value is the default matrix; Typer itself knows no optional values.

    Also keeps the command line as it was typed: it goes into every record.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.meta[_TYPED] = ("ddops", "bench", *args)
        return super().parse_args(ctx, with_matrix(args))


def bench(
    context: typer.Context,
    box: BoxName = "local",
    matrix: MatrixFile = _DEFAULT,
    out: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("results"),
    cells: Annotated[
        list[str] | None, typer.Option(help="Only these cells, e.g. `ddtree-b8.*`; repeatable.")
    ] = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Measure nothing; put back what a killed bench left.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure a matrix of configurations, and put the box back.

    The service is restarted for each variant. Run it again after any interruption: only cells
    without a good record are measured.

    \b
    Example:
      ddops bench local --matrix mine.yaml --cells 'ddtree-b8.*'
    """
    from ddops.flows import bench as flow
    from ddops.flows.site import opened

    output = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        if restore:
            _restore(site, out, output, lock_wait)
            return
        planned = flow.plan(site, flow.load_matrix(matrix), out, cells or ())
        for warning in flow.warnings(planned, site):
            output.warn(warning)
        if dry_run:
            output.result(_plan_data(planned), _plan_table(planned))
            return
        if _wanted(site, planned, output, yes=yes):
            with _working(site, output, lock_wait):
                result = flow.bench(site, planned, context.meta[_TYPED], output)
            _show(result, output)


def _wanted(site: Site, planned: Plan, output: Output, *, yes: bool) -> bool:
    output.say(_intention(planned))
    question = f"Restart the service of box `{site.box.name}` for each variant?"
    if not planned.missing or output.confirm(question, yes=yes):
        return True
    output.say("nothing was measured")
    return False


@contextmanager
def _working(site: Site, output: Output, lock_wait: float) -> Iterator[None]:
    from ddops.flows.history import recorded
    from ddops.flows.lock import locked

    with (
        locked(site, "bench", wait_s=lock_wait, voice=output),
        recorded(site, "bench", (), output),
    ):
        yield


def _show(result: Benched, output: Output) -> None:
    from ddops.flows import bench as flow

    looked = result.steadiness
    beside = {one.cell: one for one in result.efforts}
    data = {
        "folder": str(result.folder),
        "cells": [
            {**asdict(row), "power": asdict(beside[row.cell]) if row.cell in beside else None}
            for row in result.rows
        ],
        "steady": {"steady": looked.steady, "change": looked.change} if looked else None,
    }
    output.result(data, draw(result.rows, beside))
    for one in result.efforts:
        if one.bottleneck is not None:
            output.detail(f"{one.cell}: {one.bound}. {one.bottleneck.why}")
    if looked is not None:
        (output.say if looked.steady else output.warn)(looked.text)
    output.say(f"records: {result.folder}")
    flow.check(result)


def _restore(site: Site, out: Path, output: Output, lock_wait: float) -> None:
    from ddops.flows import bench as flow

    with _working(site, output, lock_wait):
        done = flow.restore(site, out, output)
    output.result({"restored": done}, "put back" if done else "nothing to put back")


def with_matrix(args: list[str]) -> list[str]:
    """`args` with the default after a `--matrix` that has no value of its own."""
    given: list[str] = []
    for arg, following in zip(args, [*args[1:], "-"], strict=True):
        given.append(arg)
        if arg == "--matrix" and following.startswith("-"):
            given.append(_DEFAULT)
    return given


def draw(rows: tuple[Row, ...], beside: Mapping[str, Effort]) -> RenderableType:
    """`beside`: what the box did, by cell."""
    more = _more(rows, beside)
    columns = (*_COLUMNS[:-1], *more, _COLUMNS[-1])
    cells = [_cells_of(row, [tell(row) for tell in more.values()]) for row in rows]
    return table(columns, cells, right=columns[1:-1])


def _more(rows: tuple[Row, ...], beside: Mapping[str, Effort]) -> dict[str, Callable[[Row], str]]:
    """Columns that only some runs have something for."""
    more: dict[str, Callable[[Row], str]] = {}
    if any(map(_is_open, rows)):
        more["req/s"] = lambda row: _number(row.requests_s, "{:.2f}")
        more["in SLO/s"] = lambda row: _number(row.goodput_s, "{:.2f}")
    energy = {cell: one.j_per_token for cell, one in beside.items()}
    if any(value is not None for value in energy.values()):
        more["J/token"] = lambda row: _number(energy.get(row.cell), "{:.3g}")
    bound = {cell: one.bound for cell, one in beside.items()}
    if any(bound.values()):
        more["limited by"] = lambda row: bound.get(row.cell) or "-"
    return more


def _is_open(row: Row) -> bool:
    """Of an open loop, or measured against an SLO: then requests count, not only tokens."""
    return not row.concurrency or row.goodput_s is not None


def _cells_of(row: Row, more: list[str]) -> list[str]:
    return [
        row.variant,
        _rung(row.pace),
        str(row.repeat),
        _number(row.output_tok_s, "{:.1f}", missing="invalid" if "invalid" in row.verdict else "-"),
        _number(row.speedup.value if row.speedup else None, "{:.2f}x"),
        _number(row.ttft_p50_s, "{:.0f} ms", scale=1000),
        _number(row.tpot_p50_s, "{:.1f} ms", scale=1000),
        _number(row.accept, "{:.2f}"),
        *more,
        f"{row.verdict}, warned" if row.warnings else row.verdict,
    ]


def _rung(pace: str) -> str:
    """The column's head says C already."""
    return pace.removeprefix("C=")


def _number(value: float | None, form: str, *, scale: float = 1.0, missing: str = "-") -> str:
    return missing if value is None else form.format(value * scale)


def _intention(planned: Plan) -> str:
    todo, done = len(planned.missing), len(planned.cells) - len(planned.missing)
    kept = f", {done} measured already" if done else ""
    return f"{planned.journal.folder}: {todo} cells to measure{kept}, {_time(planned.estimate)}"


def _time(estimate: Estimate) -> str:
    said = f"about {max(1, round(estimate.seconds / 60))} min"
    by = f" ({estimate.known} of {estimate.cells} cells by earlier records of this box)"
    return said + (by if estimate.known else "")


def _plan_data(planned: Plan) -> dict[str, object]:
    missing = {cell.id for cell in planned.missing}
    return {
        "folder": str(planned.journal.folder),
        "fingerprint": planned.matrix.fingerprint,
        "estimate_s": planned.estimate.seconds,
        "estimated_from_records": planned.estimate.known,
        "broken_rules": planned.broken,
        "cells": [{"cell": cell.id, "measured": cell.id not in missing} for cell in planned.cells],
    }


def _plan_table(planned: Plan) -> RenderableType:
    from rich.console import Group

    missing = {cell.id for cell in planned.missing}
    rows = [
        [
            cell.id,
            cell.variant.name,
            _rung(str(cell.pace)),
            "-" if cell.id in missing else "yes",
        ]
        for cell in planned.cells
    ]
    drawn = table(("cell", "variant", "C", "measured"), rows, right=("C",))
    return Group(drawn, _intention(planned))

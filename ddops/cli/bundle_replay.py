"""`ddops bundle replay`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.bundle_verify import Tolerance, fault
from ddops.cli.options import BundlePath, DryRun, Json, LockWait, Quiet, Verbose, Yes
from ddops.cli.output import Output, table
from ddops.spec.level import TOLERANCE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.bundle_replay import Plan, Replayed
    from ddops.flows.history import Do
    from ddops.flows.site import Site

Cells = Annotated[
    list[str] | None, typer.Option(help="Only these cells, e.g. `ddtree-b8.*`; repeatable.")
]
AsIs = Annotated[
    bool,
    typer.Option("--as-is", help="With the packages that the box has; what differs is recorded."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Where the new run is kept; default `results/replays/NAME`."),
]


def replay(
    path: BundlePath,
    box: Annotated[str, typer.Option("--box", metavar="BOX", help="Where to measure.")] = "local",
    cells: Cells = None,
    as_is: AsIs = False,
    out: Out = None,
    tolerance: Tolerance = TOLERANCE,
    yes: Yes = False,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure a bundle again: make its packages and weights, walk its matrix, compare.

    Writes a new bundle that names this one. The box serves again what it served before. Run it
    again after any interruption. Exit code 12: it came out otherwise.

    \b
    Example:
      ddops bundle replay run.tar.zst --box b300 --dry-run
      ddops bundle replay run.tar.zst --box local --cells 'ddtree-b8.*' --yes
    """
    from ddops.flows import bundle_replay as flow
    from ddops.flows.site import opened

    said = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        planned = flow.plan(path, site, out, cells or (), as_is=as_is)
        if dry_run:
            said.result(_data(planned), _drawn(planned))
            return
        if not _wanted(planned, box, said, yes=yes):
            return
        name = path.resolve().name
        line = ("ddops", "bundle", "replay", name, "--box", box, *_asked(cells, as_is=as_is))
        with _working(site, planned, said, lock_wait) as do:
            done = flow.replay(site, planned, line, do, said, tolerance)
    said.result({"bundle": str(done.archive), "ok": not done.findings}, _verdict(done, planned))
    if done.findings:
        raise fault(path, done.findings)


def _wanted(planned: Plan, box: str, said: Output, *, yes: bool) -> bool:
    from ddops.flows.bench import warnings

    for warning in warnings(planned.bench, planned.site):
        said.warn(warning)
    said.show(_drawn(planned))
    question = f"Measure this on box `{box}`, with a restart of its service per variant?"
    if not planned.bench.missing or said.confirm(question, yes=yes):
        return True
    said.say("nothing was measured")
    return False


@contextmanager
def _working(site: Site, planned: Plan, said: Output, lock_wait: float) -> Iterator[Do]:
    from ddops.flows.history import recorded
    from ddops.flows.lock import locked

    verb = "bundle replay"
    with (
        locked(site, verb, wait_s=lock_wait, voice=said),
        recorded(site, verb, planned.commands, said) as do,
    ):
        yield do


def _asked(cells: list[str] | None, *, as_is: bool) -> list[str]:
    """For the records: what was asked for, without folders of this machine."""
    named = [word for cell in cells or () for word in ("--cells", cell)]
    return [*named, *(["--as-is"] if as_is else [])]


def _data(planned: Plan) -> dict[str, object]:
    from ddops.flows.bundle_levels import claims
    from ddops.spec.command import told

    missing = {cell.id for cell in planned.bench.missing}
    return {
        "bundle": planned.of.info.name,
        "folder": str(planned.bench.journal.folder),
        "differences": [one.finding.reason for one in planned.dangers],
        "endangered": list(claims(planned.dangers)),
        "commands": [told(command) for command in planned.commands],
        "cells": [
            {"cell": cell.id, "measured": cell.id not in missing} for cell in planned.bench.cells
        ],
    }


def _drawn(planned: Plan) -> RenderableType:
    from rich.console import Group

    from ddops.flows.bundle_levels import claims

    dangers = [(o.drift.what, o.drift.wanted, o.drift.there, o.matter) for o in planned.dangers]
    parts: list[RenderableType] = [f"replay of {planned.of.info.name}", ""]
    if dangers:
        parts += [table(("differs", "was", "is", "endangers its"), dangers), ""]
        parts += [*(f"endangered: {claim}" for claim in claims(planned.dangers)), ""]
    else:
        parts += ["nothing differs that a number is known to depend on", ""]
    parts += [f"- {command.line}" for command in planned.commands]
    todo, whole = len(planned.bench.missing), len(planned.bench.cells)
    parts.append(f"- measure {todo} of {whole} cells in {planned.bench.journal.folder}")
    return Group(*parts)


def _verdict(done: Replayed, planned: Plan) -> str:
    name = planned.of.info.name
    verdict = (
        f"{len(done.findings)} differences from {name}"
        if done.findings
        else f"{done.measured} cells as {name} has them: numbers within bounds, the same answers"
    )
    return f"{done.archive}\n{verdict}"

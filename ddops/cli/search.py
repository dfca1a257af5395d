"""`ddops search`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Quiet, Verbose, Yes
from ddops.cli.output import Output, table
from ddops.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.search import Plan, Searched
    from ddops.spec.search import Tried, Wall

_COLUMNS = ("tried", "tok/s", "accept", "failure")


def search(
    box: BoxName = "local",
    budgets: Annotated[
        str, typer.Option(metavar="N,N,…", help="Sizes of the draft tree to choose from.")
    ] = "8,12,16,32",
    starts: Annotated[
        int, typer.Option(min=4, help="How often the service may be started, at most.")
    ] = 12,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 1,
    requests: Annotated[int, typer.Option(min=1, help="Measured requests of each try.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=16, help="Tokens of an answer.")] = 128,
    out: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("results"),
    yes: Yes = False,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find the best configuration that works, and serve it.

    Bisects where budgets begin to fail, changes one thing at a time to find out why, and writes
    what it learned to ./rules. Run it again after an interruption: it goes on.

    \\b
    Example:
      ddops search local --budgets 4,8,16,32
    """
    from ddops.flows import search as flow
    from ddops.flows.lock import locked
    from ddops.flows.site import opened
    from ddops.spec.matrix import Load

    output = Output(json=json, quiet=quiet, verbose=verbose)
    load = Load(requests=requests, warmup=1, max_tokens=max_tokens)
    limits = flow.Limits(starts=starts, concurrency=concurrency, load=load)
    with opened(box) as site:
        planned = flow.plan(site, _numbers(budgets), limits, out)
        if dry_run:
            output.result(_plan_data(planned), _intention(planned))
            return
        output.say(_intention(planned))
        if not output.confirm(f"Restart the service of box `{site.box.name}`?", yes=yes):
            output.say("nothing was tried")
            return
        with locked(site, "search", wait_s=lock_wait, voice=output):
            done = flow.search(site, planned, ("ddops", "search", box), output)
    output.result(_data(done), _draw(done, box))
    if not done.whole:
        output.warn(f"{starts} starts were not enough to learn all: run it again to go on")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(1 <= budget <= 256 for budget in found):
        raise UsageError(f"`{text}` are no budgets", hint="for example `--budgets 8,16,32`")
    return found


def _intention(planned: Plan) -> str:
    axes = planned.axes
    varied = [
        f"budget {', '.join(map(str, axes.budgets))}",
        *(["graphs"] if len(axes.graphs) > 1 else []),
        *(["NVLS"] if len(axes.nvls) > 1 else []),
        *(["parallelism"] if len(axes.parallel) > 1 else []),
    ]
    left = f"{len(planned.tried)} tried already, " if planned.tried else ""
    at_most = f"at most {planned.limits.starts} starts"
    return f"{planned.journal.folder}: varies {'; '.join(varied)}; {left}{at_most}"


def _plan_data(planned: Plan) -> dict[str, object]:
    return {
        "folder": str(planned.journal.folder),
        "axes": planned.axes.model_dump(),
        "tried": [one.model_dump() for one in planned.tried],
        "starts": planned.limits.starts,
    }


def _data(done: Searched) -> dict[str, object]:
    return {
        "folder": str(done.folder),
        "whole": done.whole,
        "tried": [one.model_dump() for one in done.tried],
        "found": done.found.model_dump(),
        "learned": [rule.name for rule in done.learned],
        "outdated": list(done.outdated),
        "base_url": done.deployed.base_url,
    }


def _draw(done: Searched, box: str) -> RenderableType:
    from rich.console import Group

    best, baseline = done.found.best, done.found.baseline
    assert best is not None, "a search without a best raises"
    ratio = best.tok_s / baseline.tok_s if best.tok_s and baseline and baseline.tok_s else None
    against = f", {ratio:.2f}x autoregressive" if ratio else ""
    lines = [
        f"best: {best.variant.name}, {best.tok_s or 0:.1f} tok/s{against}; it serves now",
        *(_wall(wall) for wall in done.found.walls),
        *([] if done.found.walls else ["no wall was found"]),
        *(f"learned: rule `{rule.name}`, in rules/learned.yaml" for rule in done.learned),
        *(f"rule `{name}` forbids what works here: it was overridden" for name in done.outdated),
        f"records: {done.folder}",
        f"next: put it into the inventory; until then `ddops diff {box}` names the difference",
    ]
    rows = [_row(one) for one in done.tried]
    return Group(table(_COLUMNS, rows, right=("tok/s", "accept")), "", *lines)


def _row(one: Tried) -> tuple[str, ...]:
    return (
        one.variant.name,
        f"{one.tok_s:.1f}" if one.tok_s else "-",
        f"{one.accept:.2f}" if one.accept else "-",
        one.failure or "",
    )


def _wall(wall: Wall) -> str:
    cause = f"; the cause is {wall.cause}" if wall.cause else "; the cause was not found"
    return f"wall: {wall.works.name} works, {wall.fails.name} fails ({wall.failure}){cause}"

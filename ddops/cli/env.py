"""`ddops env stream`, `show` and `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Quiet, Verbose
from ddops.cli.output import Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.env import Streamed
    from ddops.flows.site import Site
    from ddops.spec.environment import Bringing, Manifest

env = typer.Typer(
    name="env",
    help="Bring a working environment from one machine to another.",
    no_args_is_help=True,
)

SourceName = Annotated[
    str,
    typer.Argument(metavar="SRC", help="A folder with a virtual environment, or an inventory."),
]
TargetName = Annotated[str, typer.Argument(metavar="DST", help="The inventory of a box.")]
Connections = Annotated[
    int, typer.Option("--connections", min=1, max=16, help="How many to open at once.")
]


@env.command()
def stream(
    source: SourceName,
    target: TargetName,
    connections: Connections = 8,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Send what the box lacks of an environment, prove it there, then switch to it.

    The one before stays; a run that was cut short goes on where it stopped.

    \b
    Example:
      ddops env stream .venv b300
      ddops env stream ct200 b300
    """
    from ddops.flows.env import arrive, source_of
    from ddops.flows.env import stream as send
    from ddops.flows.lock import locked
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with source_of(source) as found, opened(target) as site:
        if dry_run:
            coming = arrive(found, site, out).coming(found.name)
            out.result(coming.model_dump(), coming.line)
            return
        with locked(site, "env stream", wait_s=lock_wait, voice=out):
            done = send(found, arrive(found, site, out), out, connections=connections)
    for note in done.notes:
        out.warn(note)
    out.result(_streamed(done), _summary(done, target))


@env.command()
def show(
    source: SourceName, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """What an environment is made of: its packages, and what was patched in it.

    \b
    Example:
      ddops env show .venv
      ddops env show b300 --json
    """
    from ddops.flows.env import look, source_of

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with source_of(source) as found:
        seen = look(found, out)
    out.result(_data(seen), _draw(seen))


@env.command()
def verify(
    box: BoxName = "local", json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Read every file of a box's environment again. Exit code 5: it is not what was proven.

    \b
    Example:
      ddops env verify b300
    """
    from ddops.flows.env import verify as check
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        sound = check(site, out)
    out.result(sound.model_dump(), f"{sound.files} files are what they were when it was proven")


def shown_first(site: Site, out: Output) -> bool:
    """True: an environment has to come first, and that is all the plan there is so far."""
    from ddops.flows.env import outstanding
    from ddops.spec.command import told

    with outstanding(site, out) as wanted:
        if wanted is None:
            return False
        coming = wanted[1].coming(wanted[0].name)
    size = {"bytes": coming.size, "takes_s": None}
    command = {"kind": "stream", "line": coming.line, "why": "what the engine runs in", **size}
    data = {"commands": [*map(told, coming.packages), command], "bytes": coming.size}
    out.result(data, _coming(coming))
    return True


def brought_first(site: Site, out: Output, *, yes: bool) -> bool:
    """False: the user does not want the environment that the deployment runs in."""
    from ddops.flows.env import outstanding, stream

    with outstanding(site, out) as wanted:
        if wanted is None:
            return True
        source, arrival = wanted
        out.show(_coming(arrival.coming(source.name)))
        if not out.confirm(f"Do this to box `{site.box.name}`?", yes=yes):
            out.say("nothing was changed")
            return False
        for note in stream(source, arrival, out).notes:
            out.warn(note)
    return True


def _coming(coming: Bringing) -> str:
    return "\n".join([*coming.lines, "the rest is planned once it is there"])


def _streamed(done: Streamed) -> dict[str, object]:
    return {
        "changed": done.changed,
        "identity": done.manifest.identity,
        "path": done.path,
        "size": done.manifest.size,
        "sent": done.sent,
        "seconds": done.seconds,
        "notes": done.notes,
        "patches": [patch.model_dump() for patch in done.manifest.patches],
        "absolute_rpaths": [one.model_dump() for one in done.manifest.binaries if one.rpath],
    }


def _summary(done: Streamed, box: str) -> str:
    if not done.changed:
        return f"nothing to change: {done.path} is in use"
    seen = done.manifest
    return "\n".join(
        [
            f"in use: {done.path}",
            f"  {len(seen.files)} files, {seen.size / 1e6:.1f} MB, {done.sent / 1e6:.1f} MB sent"
            f" in {done.seconds:.1f} s",
            f"  patched: {', '.join(sorted({one.package for one in seen.patches})) or 'nothing'}",
            f"next: `ddops deploy {box}` lets the service run in it",
        ]
    )


def _data(seen: Manifest) -> dict[str, object]:
    kept = {"prefix", "python", "base", "arch", "glibc", "cpu_flags", "cuda"}
    return {
        **seen.model_dump(include=kept),
        "identity": seen.identity,
        "size": seen.size,
        "files": len(seen.files),
        "packages": {one.name: one.version for one in seen.packages},
        "built_here": [one.name for one in seen.packages if one.built_here],
        "patches": [patch.model_dump() for patch in seen.patches],
        "outside": {tree.at: tree.source for tree in seen.trees if tree.at},
        "absolute_rpaths": {one.path: one.rpath for one in seen.binaries if one.rpath},
        "mentions": seen.mentions,
    }


def _draw(seen: Manifest) -> RenderableType:
    newest = max((one.glibc for one in seen.binaries if one.glibc), key=_numbers, default="none")
    rows = {
        "identity": seen.identity,
        "lies in": seen.prefix,
        "Python": f"{seen.python}, {seen.base}",
        "files": f"{len(seen.files)}, {seen.size / 1e6:.1f} MB",
        "packages": str(len(seen.packages)),
        "from outside": "\n".join(t.source for t in seen.trees if t.at) or "nothing",
        "built here": ", ".join(one.name for one in seen.packages if one.built_here) or "nothing",
        "glibc": f"{newest} or newer",
        "CUDA": seen.cuda or "none",
        "patched": "\n".join(f"{p.change}: {p.path}" for p in seen.patches) or "nothing",
    }
    return table(("subject", "seen"), list(rows.items()))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

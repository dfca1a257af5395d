"""`ddops bundle push` and `pull`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import BundlePath, Json, Quiet, Verbose
from ddops.cli.output import Output

if TYPE_CHECKING:
    from ddops.flows.bundle_shelf import Moved

OnShelf = Annotated[
    str, typer.Argument(metavar="SHELF", help="A folder, or `oci://HOST[:PORT]/REPOSITORY`.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Put it in the place of another one of its name.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `ddops bundle show` has it.")]
Into = Annotated[Path, typer.Option("--out", help="The folder to put the archive in.")]


def push(
    path: BundlePath,
    shelf: OnShelf,
    replace: Replace = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Put a bundle without a fault where others find it: a folder, or an OCI registry.

    Who you are is taken from docker's configuration, or from DDOPS_REGISTRY_USER and
    DDOPS_REGISTRY_PASSWORD, or asked for.

    \b
    Example:
      ddops bundle push run.tar.zst /mnt/bundles
      ddops bundle push run.tar.zst oci://registry.example.org/team/bundles
    """
    from ddops.flows.bundle_shelf import push as put
    from ddops.flows.bundle_shelf import shelf_of

    said = Output(json=json, quiet=quiet, verbose=verbose)
    _told(said, put(path, shelf_of(shelf), said, replace=replace))


def pull(
    name: Name,
    shelf: OnShelf,
    out: Into = Path(),
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Take a bundle from a folder or an OCI registry, check it, and only then give it its name.

    \b
    Example:
      ddops bundle pull local-demo-1a2b3c4d /mnt/bundles
      ddops bundle pull local-demo-1a2b3c4d oci://registry.example.org/team/bundles --out kept
    """
    from ddops.flows.bundle_shelf import pull as take
    from ddops.flows.bundle_shelf import shelf_of

    said = Output(json=json, quiet=quiet, verbose=verbose)
    _told(said, take(name, shelf_of(shelf), out, said))


def _told(said: Output, moved: Moved) -> None:
    if not moved.changed:
        said.say("nothing to change: it is there already")
    said.result(dataclasses.asdict(moved), moved.where)

"""`ddops init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddops.cli.options import Json, Pin, Quiet, Verbose
from ddops.cli.output import Output

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="USER@HOST, or `local` for this machine.")
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The box's name; default: its host's.")
]


def init(
    target: Target,
    name: Name = None,
    pin: Pin = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Look at a box and write its first inventory.

    It goes into ./inventories; nothing is changed on the box.

    \b
    Example:
      ddops init root@203.0.113.7 --name b300
    """
    from ddops.flows.init import init as write
    from ddops.flows.init import target as meant
    from ddops.flows.site import reached

    out = Output(json=json, quiet=quiet, verbose=verbose)
    box = meant(target, name)
    with reached(box, pin=pin) as site:
        done = write(site, Path("inventories") / f"{box.name}.yaml")
    data = {"path": str(done.path), "new": done.new, "found": done.found.model_dump(mode="json")}
    said = f"wrote {done.path}" if done.new else f"nothing to change: {done.path}"
    gpus = f"{len(done.found.gpus)} GPUs, {len(done.found.installations)} engines found"
    out.result(data, f"{said}\n  {gpus}\nnext: `ddops check {box.name}`")

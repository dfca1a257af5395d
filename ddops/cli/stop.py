"""`ddops stop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddops.cli.options import BoxNames, DryRun, Json, LockWait, Quiet, Verbose
from ddops.cli.output import Output
from ddops.cli.plan import in_words, show_commands
from ddops.cli.several import each, one, several, show, waiting


def stop(
    boxes: BoxNames = None,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Stop the service, after the requests in flight.

    Weights, unit and log stay.

    \b
    Example:
      ddops stop local
      ddops stop b300-a b300-b
    """
    from ddops.flows.lock import locked
    from ddops.flows.site import opened
    from ddops.flows.stop import stop as end
    from ddops.flows.stop import stop_plan

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        show(out, each("stop", names, waiting(lock_wait, dry_run=dry_run), out), _line)
    with opened(one(boxes)) as site:
        if dry_run:
            show_commands(out, stop_plan(site), site.place)
            return
        with locked(site, "stop", wait_s=lock_wait, voice=out):
            commands = stop_plan(site)
            if commands:
                end(site, commands, out)
    out.result({"changed": len(commands)}, "stopped" if commands else "nothing to stop")


def _line(done: Mapping[str, Any] | Sequence[str]) -> str:
    if not isinstance(done, Mapping):
        return in_words(done)
    return "stopped" if done["changed"] else "nothing to stop"

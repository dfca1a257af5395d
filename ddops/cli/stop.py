"""`ddops stop`."""

from __future__ import annotations

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Quiet, Verbose
from ddops.cli.output import Output
from ddops.cli.plan import show_commands


def stop(
    box: BoxName = "local",
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
    """
    from ddops.flows.lock import locked
    from ddops.flows.site import opened
    from ddops.flows.stop import stop as end
    from ddops.flows.stop import stop_plan

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        if dry_run:
            show_commands(out, stop_plan(site), site.place)
            return
        with locked(site, "stop", wait_s=lock_wait, voice=out):
            commands = stop_plan(site)
            if commands:
                end(site, commands, out)
    out.result({"changed": len(commands)}, "stopped" if commands else "nothing to stop")

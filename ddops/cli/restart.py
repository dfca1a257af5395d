"""`ddops restart`."""

from __future__ import annotations

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Quiet, Verbose
from ddops.cli.output import Output
from ddops.cli.plan import show_commands


def restart(
    box: BoxName = "local",
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Restart the service and wait until it has generated a token.

    \b
    Example:
      ddops restart local
    """
    from ddops.flows.lock import locked
    from ddops.flows.restart import restart as again
    from ddops.flows.restart import restart_plan
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        if dry_run:
            show_commands(out, restart_plan(site), site.place)
            return
        with locked(site, "restart", wait_s=lock_wait, voice=out):
            seen = again(site, restart_plan(site), out)
    out.result({"pid": seen.pid}, f"ready, process {seen.pid}")

"""`ddops restart`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddops.cli.options import BoxNames, DryRun, Json, LockWait, Quiet, Verbose
from ddops.cli.output import Output
from ddops.cli.plan import in_words, show_commands
from ddops.cli.several import each, one, several, show, waiting


def restart(
    boxes: BoxNames = None,
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
      ddops restart b300-a b300-b
    """
    from ddops.flows.lock import locked
    from ddops.flows.restart import restart as again
    from ddops.flows.restart import restart_plan
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        show(out, each("restart", names, waiting(lock_wait, dry_run=dry_run), out), _line)
    with opened(one(boxes)) as site:
        if dry_run:
            show_commands(out, restart_plan(site), site.place)
            return
        with locked(site, "restart", wait_s=lock_wait, voice=out):
            seen = again(site, restart_plan(site), out)
    out.result({"pid": seen.pid}, f"ready, process {seen.pid}")


def _line(done: Mapping[str, Any] | Sequence[str]) -> str:
    return f"ready, process {done['pid']}" if isinstance(done, Mapping) else in_words(done)

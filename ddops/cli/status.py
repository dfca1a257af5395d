"""`ddops status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ddops.cli.options import BoxName, Json, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.errors import ServiceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.status import Status


def status(
    box: BoxName = "local", json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Say how the service is, and where it differs from the inventory.

    Exit code 8 means that it is not ready.

    \b
    Example:
      ddops status local
    """
    from ddops.flows.site import opened
    from ddops.flows.status import status as ask

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        seen = ask(site)
    out.result({"ready": seen.ready, **seen.model_dump(mode="json")}, _draw(seen))
    raise typer.Exit(0 if seen.ready else ServiceError.exit_code)


def _draw(seen: Status) -> RenderableType:
    service = seen.service
    uptime = f", up {_duration(service.uptime_s)}" if service.uptime_s is not None else ""
    ended = f", last exit code {service.exit_code}" if service.exit_code else ""
    rows = {
        "box": seen.box,
        "service": f"{service.state}{ended}, run by {service.kind}",
        "unit": seen.unit,
        "process": f"{service.pid}{uptime}, {service.restarts} restarts" if service.pid else "none",
        "ready": f"{'yes' if seen.ready else 'no'} ({seen.health.status})",
        "model": seen.model or "unknown",
        "mode": seen.mode or "unknown",
        "budget": "unknown" if seen.budget is None else str(seen.budget),
        "url": seen.url,
        "deployed": seen.deployed_at or "never",
        "drift": "\n".join(seen.drift) or "none",
    }
    return table(("subject", "state"), list(rows.items()))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{n} {unit}" for n, unit in [p for p in parts if p[0]][:2]) or "0 s"

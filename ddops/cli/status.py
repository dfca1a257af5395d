"""`ddops status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from ddops.cli.options import BoxNames, Json, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.several import each, one, several, show
from ddops.errors import ServiceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.status import Status


def status(
    boxes: BoxNames = None, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Say how the service is.

    And where it differs from the inventory. Exit code 8 means that it is not ready.

    \b
    Example:
      ddops status local
      ddops status b300-a b300-b
    """
    from ddops.flows.site import opened
    from ddops.flows.status import status as ask

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        show(out, each("status", names, (), out), _line)
    with opened(one(boxes)) as site:
        seen = ask(site)
    out.result({"ready": seen.ready, **seen.model_dump(mode="json")}, _draw(seen))
    raise typer.Exit(0 if seen.ready else ServiceError.exit_code)


def _line(seen: Mapping[str, Any]) -> str:
    model = f", {seen['model']}" if seen["model"] else ""
    drift = f", {len(seen['drift'])} differ from the inventory" if seen["drift"] else ""
    return f"{seen['service']['state']}, {seen['health']['status']}{model}{drift}"


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

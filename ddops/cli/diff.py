"""`ddops diff`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from ddops.cli.options import BoxNames, Json
from ddops.cli.output import Output, table
from ddops.cli.several import each, one, several, show
from ddops.errors import CheckError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.spec.drift import Drift


def diff(boxes: BoxNames = None, json: Json = False) -> None:
    """Say where a box has drifted from what it should be.

    Unit, secrets, process, packages, weights and driver are compared. The inventory says what the
    unit should be; packages and driver should be those with which the deployment passed its gate.
    Exit code 5 means that there is drift.

    \b
    Example:
      ddops diff b300
      ddops diff b300-a b300-b
    """
    from ddops.flows.diff import diff as compare
    from ddops.flows.site import opened

    out = Output(json=json)
    if names := several(boxes):
        show(out, each("diff", names, (), out), _line)
    with opened(one(boxes)) as site:
        found = compare(site)
    out.result([one.model_dump() for one in found], _draw(found))
    raise typer.Exit(CheckError.exit_code if found else 0)


def _line(found: Sequence[Mapping[str, str]]) -> str:
    counted = Counter(drift["subject"] for drift in found)
    return ", ".join(f"{subject} ({count})" for subject, count in counted.items()) or "no drift"


def _draw(found: list[Drift]) -> RenderableType:
    if not found:
        return "no drift"
    rows = [(one.subject, one.what, one.wanted, one.there) for one in found]
    return table(("subject", "what", "wanted", "there"), rows)

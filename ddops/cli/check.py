"""`ddops check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from ddops.cli.options import BoxNames, Json, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.several import each, one, several, show
from ddops.errors import CheckError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.spec.verdict import Verdict


def check(
    boxes: BoxNames = None, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Say whether a box fits its inventory, and how to make it fit. Changes nothing.

    A shell is all that it needs there. Exit code 5 means that something fails.

    \b
    Example:
      ddops check local
      ddops check b300-a b300-b
    """
    from ddops.flows.check import check as judge
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        show(out, each("check", names, (), out), _line)
    with opened(one(boxes)) as site:
        verdicts = judge(site)
    out.result([one.model_dump() for one in verdicts], _draw(verdicts))
    failed = any(one.state == "fail" for one in verdicts)
    raise typer.Exit(CheckError.exit_code if failed else 0)


def _line(verdicts: Sequence[Mapping[str, str]]) -> str:
    found = {
        state: ", ".join(one["subject"] for one in verdicts if one["state"] == state)
        for state in ("fail", "warn")
    }
    return "; ".join(f"{state}: {names}" for state, names in found.items() if names) or "it fits"


def _draw(verdicts: Sequence[Verdict]) -> RenderableType:
    rows = [(one.state, one.subject, one.said, one.fix or "") for one in verdicts]
    return table(("", "subject", "seen", "what to do"), rows)

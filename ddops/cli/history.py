"""`ddops history`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import BoxName, Json
from ddops.cli.output import Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.spec.history import Action

_COLUMNS = ("when", "verb", "who", "plan", "steps", "outcome")


def history(
    box: BoxName = "local",
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="How many to show.")] = 20,
    steps: Annotated[bool, typer.Option("--steps", help="Show each step that was done.")] = False,
    json: Json = False,
) -> None:
    """Say what ddops did to a box, when, and how it ended.

    Also who did it and from where. It is written on the box, line by line, in history.jsonl.

    \b
    Example:
      ddops history b300 --steps
    """
    from ddops.flows.history import actions
    from ddops.flows.site import opened

    out = Output(json=json)
    with opened(box) as site:
        found = actions(site)[-last:]
    out.result([_data(one) for one in found], _draw(found, steps=steps))


def _data(one: Action) -> dict[str, object]:
    who = one.first.model_dump(include={"at", "verb", "who", "machine", "plan", "steps"})
    ended = {"outcome": one.outcome, "last_at": one.last.at, "reason": _reason(one)}
    return {**who, **ended, "done": list(one.steps)}


def _draw(found: list[Action], *, steps: bool) -> RenderableType:
    if not found:
        return "nothing was done to this box yet"
    rows: list[tuple[str, ...]] = []
    for one in found:
        first, reason = one.first, _reason(one)
        outcome = f"{one.outcome}: {reason}" if reason else one.outcome
        done = f"{one.last.done}/{first.steps}"
        who = f"{first.who} on {first.machine}"
        rows.append((first.at, first.verb, who, first.plan[:8], done, outcome))
        rows += [("", "", "", "", "", f"  {line}") for line in one.steps if steps]
    return table(_COLUMNS, rows, right=("steps",))


def _reason(one: Action) -> str:
    return one.last.line if one.outcome == "failed" else ""

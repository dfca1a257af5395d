"""`ddops explain`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ddops.cli.options import BoxName, Json, Override, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.plan import draw_memory, memory_data
from ddops.errors import CheckError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.advise import Advised
    from ddops.spec.argument import Reason


def explain(
    box: BoxName = "local",
    override: Override = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Give every flag of the engine with its reason.

    And with its source, and how sure it is. Exit code 5 means that a rule forbids the wish.
    Changes nothing.

    \b
    Example:
      ddops explain local
      ddops explain b300 --override sglang-graph-wall
    """
    from ddops.flows.explain import explain as ask
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box, overrides=override) as site:
        advised = ask(site)
    out.result(_data(advised), _draw(advised))
    raise typer.Exit(CheckError.exit_code if advised.advice.broken else 0)


def _data(advised: Advised) -> dict[str, Any]:
    advice = advised.advice
    return {
        "engine": advised.engine.name,
        "version": advised.software.version,
        "options_from": advised.options.origin if advised.options else None,
        "arguments": [one.model_dump() for one in advised.arguments],
        "environment": [one.model_dump() for one in advised.settings],
        "forbidden": [one.model_dump() for one in advice.broken],
        "overridden": [one.model_dump() for one in advice.overridden],
        "notes": [one.model_dump() for one in advice.notes],
        "memory": memory_data(advised.situation),
    }


def _draw(advised: Advised) -> RenderableType:
    from rich.console import Group

    advice = advised.advice
    rows = [
        *_rows((f"{one.flag} {one.value}".strip(), one) for one in advised.arguments),
        *_rows((f"{one.name}={one.value}", one) for one in advised.settings),
    ]
    parts: list[RenderableType] = [_engine(advised), "", _table("what", rows)]
    parts += draw_memory(advised.situation)
    said: dict[str, Sequence[Reason]] = {
        "forbidden": advice.broken,
        "overridden": advice.overridden,
        "note": advice.notes,
    }
    for title, found in said.items():
        rows = _rows((str(one.rule), one) for one in found)
        parts += ["", _table(title, rows)] if rows else []
    return Group(*parts)


def _rows(named: Iterable[tuple[str, Reason]]) -> list[tuple[str, ...]]:
    return [(name, one.why, one.source, one.sure) for name, one in named]


def _table(first: str, rows: list[tuple[str, ...]]) -> RenderableType:
    return table((first, "why", "source", "how sure"), rows)


def _engine(advised: Advised) -> str:
    version = advised.software.version or "of unknown version"
    checked = f"checked against {advised.options.origin}" if advised.options else "not checked"
    return f"{advised.engine.name} {version}, options {checked}"

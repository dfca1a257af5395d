"""`ddops claims`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import Json
from ddops.cli.output import Output, table
from ddops.errors import ClaimsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ddops.analysis.stated import Judged

File = Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file of claims.")]


def claims(file: File, json: Json = False) -> None:
    """Check stated sentences against the records they name. Exit code 12: one is false.

    \b
    Example:
      ddops claims repro/k26-ddtree/claims.yaml
    """
    from ddops.flows.claims import claims as check

    out = Output(json=json)
    judged = check(file)
    out.result([_data(one) for one in judged], _draw(judged))
    false = sum(not one.holds for one in judged)
    if false:
        raise ClaimsError(
            f"{false} of {len(judged)} claims are not borne out by the records they name",
            hint="state what the arithmetic gives, or measure again",
        )


def _data(one: Judged) -> dict[str, object]:
    steps = [
        {"records": step.records, "text": step.text, "found": step.found, "holds": step.holds}
        for step in one.steps
    ]
    return {**one.claim.model_dump(mode="json"), "holds": one.holds, "arithmetic": steps}


def _draw(judged: Sequence[Judged]) -> RenderableType:
    rows = []
    for one in judged:
        rows.append(("true" if one.holds else "FALSE", one.claim.says, ""))
        rows += [("", f"  {step.text}", ", ".join(step.records)) for step in one.steps]
    return table(("", "claim", "records"), rows)

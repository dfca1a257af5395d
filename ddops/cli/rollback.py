"""`ddops rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Quiet, Verbose, Yes
from ddops.cli.output import Output, table
from ddops.cli.plan import draw_commands, show_commands

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.rollback import Rollback
    from ddops.spec.generation import Generations


def rollback(
    box: BoxName = "local",
    generation: Annotated[
        int | None,
        typer.Argument(metavar="[GENERATION]", help="Its number; default: the one before."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show the generations kept.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Let an earlier generation serve again, and prove that it does.

    The last three deployments that passed their gate are kept on the box.

    \b
    Example:
      ddops rollback b300 --list
      ddops rollback b300 --yes
    """
    from ddops.flows.lock import locked
    from ddops.flows.rollback import rollback_plan
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box) as site:
        if listed:
            kept = site.generations()
            out.result(_data(kept), _draw(kept))
            return
        if dry_run:
            show_commands(out, rollback_plan(site, generation).commands, site.place)
            return
        with locked(site, "rollback", wait_s=lock_wait, voice=out):
            _go_back(rollback_plan(site, generation), out, yes=yes)


def _go_back(planned: Rollback, out: Output, *, yes: bool) -> None:
    from ddops.flows.rollback import rollback as go_back

    site, number, changed = planned.site, planned.wanted.number, len(planned.commands)
    if not changed:
        out.result({"changed": 0, "generation": number}, f"generation {number} serves")
        return
    out.show(draw_commands(planned.commands, site.place))
    question = f"Let generation {number} serve on box `{site.box.name}` again?"
    if not out.confirm(question, yes=yes):
        out.say("nothing was changed")
        return
    answer = go_back(planned, out)
    data = {"changed": changed, "generation": number, "answer": answer and answer.model_dump()}
    said = f"; it said: {answer.text}" if answer else ""
    out.result(data, f"generation {number} serves again{said}")


def _data(kept: Generations) -> dict[str, object]:
    include = {"number", "deployment", "unit_sha256", "drivers", "deployed_at", "ddops_version"}
    return {
        "current": kept.current,
        "generations": [one.model_dump(mode="json", include=include) for one in kept.kept],
    }


def _draw(kept: Generations) -> RenderableType:
    if not kept.kept:
        return "nothing is deployed"
    rows = [
        (
            f"{one.number}{' *' if one.number == kept.current else ''}",
            one.deployed_at,
            one.deployment.model.name,
            one.deployment.decoding.label,
            one.unit_sha256[:8],
        )
        for one in kept.kept
    ]
    return table(("generation", "deployed", "model", "decoding", "unit"), rows)

"""`ddops deploy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ddops.cli import ensemble
from ddops.cli.env import brought_first, shown_first
from ddops.cli.options import BoxNames, DryRun, Json, LockWait, Override, Quiet, Verbose, Yes
from ddops.cli.output import Output
from ddops.cli.plan import as_data, draw, line, overriding
from ddops.cli.several import Outcome, each, one, several, show, waiting
from ddops.cli.several import draw as draw_several

if TYPE_CHECKING:
    from ddops.flows.deploy import Deployed
    from ddops.flows.plan import Plan
    from ddops.flows.site import Site


LeaveFailed = Annotated[
    bool,
    typer.Option(ensemble.LEAVE, hidden=True, help="Whoever started this puts a failed box back."),
]


def deploy(
    boxes: BoxNames = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    override: Override = None,
    lock_wait: LockWait = 0.0,
    leave_failed: LeaveFailed = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a box serve what its inventory says, and prove it.

    Shows the plan and asks; then applies it, waits for the first token, and asks one question.

    \b
    Example:
      ddops deploy local
      ddops deploy local --yes
      ddops deploy b300-a b300-b
    """
    from ddops.flows.lock import locked
    from ddops.flows.plan import plan
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        words = [*overriding(override), *waiting(lock_wait)]
        _deploy_each(names, words, out, dry_run=dry_run, yes=yes)
    with opened(one(boxes), overrides=override) as site:
        if dry_run:
            if not shown_first(site, out):
                planned = plan(site)
                shown = draw(planned, site.place, arguments=True, unit=True)
                out.result(as_data(planned), shown)
            return
        with locked(site, "deploy", wait_s=lock_wait, voice=out):
            if brought_first(site, out, yes=yes):
                _change(site, plan(site), out, yes=yes, put_back=not leave_failed)


def _change(site: Site, planned: Plan, out: Output, *, yes: bool, put_back: bool) -> None:
    from ddops.flows.deploy import deploy as apply
    from ddops.flows.deploy import needs_nothing
    from ddops.flows.history import unfinished

    if needs_nothing(planned):
        out.result({"changed": 0}, f"nothing to change: {_where(site)}")
        return
    before = unfinished(site)
    if before:
        out.say(f"{before}: going on from what is there")
    out.show(draw(planned, site.place, arguments=out.verbose))
    if not out.confirm(f"Do this to box `{site.box.name}`?", yes=yes):
        out.say("nothing was changed")
        return
    done = apply(site, planned, out, put_back=put_back)
    out.result(_data(done), _summary(site, done))


def _deploy_each(
    names: Sequence[str], words: Sequence[str], out: Output, *, dry_run: bool, yes: bool
) -> NoReturn:
    """One question for all. A box that cannot be planned is left alone, and told at the end."""
    barred: list[Outcome] = []
    if dry_run or not yes:
        planned = each("deploy", names, [*words, "--dry-run"], out)
        if dry_run:
            show(out, planned, line)
        out.show(draw_several(planned, line))
        left = ensemble.crippled(planned)
        barred = [*(one for one in planned if one.exit_code), *left]
        alone = {one.box for one in barred}
        kept = [one for one in planned if one.box not in alone]
        names = [one.box for one in kept]
        changes = any(one.result["commands"] for one in kept if one.result)
        if changes and not out.confirm(f"Do this to {', '.join(names)}?", yes=False):
            out.say("nothing was changed")
            show(out, barred, line)
    done = ensemble.deploy(names, [*words, "--yes"], out) if names else []
    show(out, [*done, *barred], _line)


def _line(done: Mapping[str, Any]) -> str:
    if not done["changed"]:
        return "nothing to change"
    return f"{done['changed']} changed, serves at {done['base_url']}"


def _data(done: Deployed) -> dict[str, object]:
    return {
        "changed": done.changed,
        "base_url": done.base_url,
        "pid": done.pid,
        "answer": done.answer and done.answer.model_dump(),
    }


def _summary(site: Site, done: Deployed) -> str:
    from ddops.flows.smoke import QUESTION

    answer = done.answer
    if answer is None:
        return f"deployed: {site.box.name} computes for rank 0, which answers"
    return "\n".join(
        [
            f"deployed: {_where(site)}",
            f"  asked: {QUESTION}",
            f"  said: {answer.text}",
            f"  {answer.tokens} tokens in {answer.seconds:.1f} s,"
            f" {answer.tokens / answer.seconds:.0f} tok/s",
            f"next: `ddops bench {site.box.name}`",
        ]
    )


def _where(site: Site) -> str:
    from ddops.facts.look import base_url

    wish = site.box.deployment
    return f"{wish.model.name} ({wish.decoding.label}) at {base_url(wish.serving)}"

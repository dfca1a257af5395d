"""`ddops deploy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddops.cli.options import BoxName, DryRun, Json, LockWait, Override, Quiet, Verbose, Yes
from ddops.cli.output import Output
from ddops.cli.plan import as_data, draw

if TYPE_CHECKING:
    from ddops.flows.deploy import Deployed
    from ddops.flows.site import Site


def deploy(
    box: BoxName = "local",
    yes: Yes = False,
    dry_run: DryRun = False,
    override: Override = None,
    lock_wait: LockWait = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a box serve what its inventory says, and prove that it does.

    Shows the plan and asks; then applies it, waits for the first token, and asks one question.

    \b
    Example:
      ddops deploy local
      ddops deploy local --yes
    """
    from ddops.flows.deploy import deploy as apply
    from ddops.flows.deploy import needs_nothing
    from ddops.flows.history import unfinished
    from ddops.flows.lock import locked
    from ddops.flows.plan import plan
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box, overrides=override) as site:
        if dry_run:
            planned = plan(site)
            out.result(as_data(planned), draw(planned, site.place, arguments=True))
            return
        with locked(site, "deploy", wait_s=lock_wait, voice=out):
            planned = plan(site)
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
            done = apply(site, planned, out)
    out.result(_data(done), _summary(site, done))


def _data(done: Deployed) -> dict[str, object]:
    return {
        "changed": done.changed,
        "base_url": done.base_url,
        "pid": done.pid,
        "answer": done.answer.model_dump(),
    }


def _summary(site: Site, done: Deployed) -> str:
    from ddops.flows.smoke import QUESTION

    rate = done.answer.tokens / done.answer.seconds
    return "\n".join(
        [
            f"deployed: {_where(site)}",
            f"  asked: {QUESTION}",
            f"  said: {done.answer.text}",
            f"  {done.answer.tokens} tokens in {done.answer.seconds:.1f} s, {rate:.0f} tok/s",
            f"next: `ddops bench {site.box.name}`",
        ]
    )


def _where(site: Site) -> str:
    from ddops.facts.look import base_url

    wish = site.box.deployment
    return f"{wish.model.name} ({wish.decoding.label}) at {base_url(wish.serving)}"

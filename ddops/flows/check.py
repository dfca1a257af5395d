"""Whether a box fits what its inventory wishes, before anything is changed on it."""

from __future__ import annotations

from ddops.engines.table import ENGINES
from ddops.errors import DdopsError, HostError
from ddops.facts.glance import glance
from ddops.flows.explain import explain
from ddops.flows.site import Site
from ddops.spec.verdict import Verdict, fail, ok, warn
from ddops.steps import preflight


def check(site: Site) -> tuple[Verdict, ...]:
    wish = site.box.deployment
    verdicts = preflight.judge(wish, ENGINES[wish.engine], glance(site.host, site.box))
    return tuple(_named(one, site.box.name) for one in (*verdicts, _rules(site)))


def _rules(site: Site) -> Verdict:
    """Whether a rule forbids the wish, or the engine lacks an option of it."""
    try:
        advised = explain(site)
        advised.check()
    except HostError:
        fix = "see to the engine's Python first"
        return warn("rules", "they ask the engine's Python, and it is not there", fix)
    except DdopsError as error:
        return fail("rules", error.subject, error.hint)
    notes = [one.why for one in advised.advice.notes]
    if notes:
        return warn("rules", "; ".join(notes), "`ddops explain BOX`")
    return ok("rules", "none forbids the wish")


def _named(verdict: Verdict, box: str) -> Verdict:
    fix = verdict.fix.replace("BOX", box) if verdict.fix else None
    return verdict.model_copy(update={"fix": fix})

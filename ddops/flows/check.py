"""Whether a box fits what its inventory wishes, before anything is changed on it."""

from __future__ import annotations

from ddops.engines.table import ENGINES
from ddops.facts.glance import glance
from ddops.flows.site import Site
from ddops.spec.verdict import Verdict
from ddops.steps import preflight


def check(site: Site) -> tuple[Verdict, ...]:
    wish = site.box.deployment
    verdicts = preflight.judge(wish, ENGINES[wish.engine], glance(site.host, site.box))
    return tuple(_named(one, site.box.name) for one in verdicts)


def _named(verdict: Verdict, box: str) -> Verdict:
    fix = verdict.fix.replace("BOX", box) if verdict.fix else None
    return verdict.model_copy(update={"fix": fix})

"""Every flag a box's engine would get, with its reason. Changes nothing, refuses nothing."""

from __future__ import annotations

from ddops.facts.look import look
from ddops.flows.advise import Advised, advise
from ddops.flows.site import Site


def explain(site: Site) -> Advised:
    return advise(site, site.box.deployment, look(site.host, site.box))

"""Look at a box, and say what was seen. Changes nothing."""

from __future__ import annotations

from ddops.facts.look import look
from ddops.flows.site import Site
from ddops.spec.observed import Observed


def inspect(site: Site) -> Observed:
    return look(site.host, site.box)

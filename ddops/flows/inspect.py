"""Look at a box, and say what was seen. Changes nothing."""

from __future__ import annotations

from ddops.facts.look import survey
from ddops.flows.site import Site
from ddops.spec.observed import Surveyed


def inspect(site: Site) -> Surveyed:
    return survey(site.host, site.box)

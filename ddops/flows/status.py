"""How the service of a box is, and where it differs from its inventory."""

from __future__ import annotations

from typing import Any

from ddops.analysis import drift
from ddops.engines.table import ENGINES
from ddops.facts.health import server_info
from ddops.facts.look import api_key, base_url, look, way_to
from ddops.flows.advise import ask
from ddops.flows.plan import render
from ddops.flows.site import Site
from ddops.spec.base import Word
from ddops.spec.deployment import Deployment
from ddops.spec.observed import Health, Service


class Status(Word):
    box: str
    url: str
    unit: str  # its path on the box
    service: Service
    health: Health
    model: str | None  # as the service itself says; None when it does not answer
    mode: str | None
    budget: int | None
    deployed_at: str | None
    drift: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return self.service.state == "running" and self.health.ready


def status(site: Site) -> Status:
    seen, wish, proven = look(site.host, site.box), site.box.deployment, site.generation()
    url = base_url(wish.serving)
    info = _info(site) if seen.health.alive else {}
    differ: list[str] = []
    if seen.service.state != "absent":
        differ = differences(proven.deployment if proven else None, wish)
        wanted = render(site, wish, ask(site, wish, seen))
        if not differ and wanted.unit_sha256 != seen.service.unit_sha256:
            differ = ["the unit on the box is not the one of the inventory"]
    return Status(
        box=site.box.name,
        url=url,
        unit=site.place.unit_path(seen.service.kind),
        service=seen.service,
        health=seen.health,
        model=info.get("served_model_name"),
        mode=info.get("mode"),
        budget=info.get("budget"),
        deployed_at=proven.deployed_at if proven else None,
        drift=tuple(differ),
    )


def _info(site: Site) -> dict[str, Any]:
    wish = site.box.deployment
    url, key = way_to(site.host, wish.serving), api_key(site.host, wish.serving)
    return server_info(url, key, ENGINES[wish.engine]) or {}


def differences(deployed: Deployment | None, wanted: Deployment) -> list[str]:
    """`decoding.budget: deployed 16, inventory 8`, one line a key."""
    if deployed is None:
        return ["what runs has not passed its gate"]
    return [
        f"{one.what}: deployed {one.there}, inventory {one.wanted}"
        for one in drift.deployment(wanted, deployed)
    ]

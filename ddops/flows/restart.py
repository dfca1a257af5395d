"""Restart the service of a box with the unit that lies there, and wait for its gate."""

from __future__ import annotations

from ddops.errors import ServiceError
from ddops.flows import gate
from ddops.flows.history import recorded
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command
from ddops.spec.observed import Service
from ddops.steps import service


def restart_plan(site: Site) -> list[Command]:
    seen = site.service()
    if seen.state == "absent":
        raise ServiceError(
            f"nothing is deployed on box `{site.box.name}`",
            hint=f"`ddops deploy {site.box.name}`",
        )
    return service.restart(seen, site.place, "as asked")


def restart(site: Site, commands: list[Command], voice: Voice) -> Service:
    proven = site.generation()
    with recorded(site, "restart", commands, voice) as do:
        for command in commands:
            do(command)
        return gate.wait(site, proven.deployment if proven else site.box.deployment, voice)

"""Stop the service of a box. Weights, unit and log stay."""

from __future__ import annotations

from ddops.flows.history import recorded
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command
from ddops.steps import service


def stop_plan(site: Site) -> list[Command]:
    """Empty when nothing runs."""
    return service.stop(site.service(), site.place, "as asked")


def stop(site: Site, commands: list[Command], voice: Voice) -> None:
    with recorded(site, "stop", commands, voice) as do:
        for command in commands:
            do(command)

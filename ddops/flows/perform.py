"""Perform one command of a plan, and let the user see which and how far."""

from __future__ import annotations

from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command, Extract, Fetch, Put, Run


def perform(site: Site, command: Command, voice: Voice) -> None:
    with voice.step(title(command), of="bytes" if _has_bytes(command) else "items") as progress:
        site.host.apply(command, progress)


def title(command: Command) -> str:
    match command:
        case Run():
            return command.title or command.line
        case Put():
            return f"write {command.path}"
        case Fetch():
            return f"fetch {command.path.rsplit('/', 1)[-1]}"
        case Extract():
            return f"extract {command.path.rsplit('/', 1)[-1]}"


def _has_bytes(command: Command) -> bool:
    return isinstance(command, Fetch | Extract)

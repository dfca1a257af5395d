"""Perform one command of a plan, and let the user see which and how far."""

from __future__ import annotations

from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command, Extract, Fetch, Pull, Put, Run


def perform(site: Site, command: Command, voice: Voice) -> None:
    if isinstance(command, Pull):
        _advise_aria2(site, voice)
    with voice.step(title(command), of="bytes" if _has_bytes(command) else "items") as progress:
        site.host.apply(command, progress)


def _advise_aria2(site: Site, voice: Voice) -> None:
    from ddops.host import aria2  # with httpx: 0.1 s that only a download pays

    if not aria2.installed(site.host):
        voice.warn(
            "aria2 is not installed there: huggingface_hub fetches instead, over fewer connections,"
            " and starts a file again that breaks; `apt-get install aria2`"
        )


def title(command: Command) -> str:
    match command:
        case Run():
            return command.title or command.line
        case Put():
            return f"write {command.path}"
        case Fetch():
            return f"fetch {command.path.rsplit('/', 1)[-1]}"
        case Pull():
            return f"pull {command.repo}"
        case Extract():
            return f"extract {command.path.rsplit('/', 1)[-1]}"


def _has_bytes(command: Command) -> bool:
    return isinstance(command, Fetch | Pull | Extract)

"""What the service wrote: its last lines, and new ones as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ddops.flows.site import Site
from ddops.host.base import Host
from ddops.spec.box import Box
from ddops.spec.command import Run
from ddops.spec.observed import Service
from ddops.spec.place import Place

_POLL_S = 0.5


def log_tail(host: Host, box: Box, lines: int = 50) -> str:
    """The last lines of the service's log; empty when there is none."""
    site = Site(host, box)
    return host.run(_last(site.service(), site.place, lines)).stdout


def follow(site: Site, lines: int) -> Iterator[str]:
    """The last lines, then new text for ever. By asking again: it works over any host."""
    seen, place = site.service(), site.place
    if seen.kind == "background":
        yield from _follow_file(site, place, lines)
    else:
        yield from _follow_journal(site, seen, lines)


def _follow_file(site: Site, place: Place, lines: int) -> Iterator[str]:
    size = _size(site, place.log_file)
    yield site.host.run(Run(argv=("tail", "-n", str(lines), place.log_file), why="log")).stdout
    while True:
        time.sleep(_POLL_S)
        now = _size(site, place.log_file)
        start = 0 if now < size else size  # a new file after the old one reached its cap
        if now > start:
            tail = Run(argv=("tail", "-c", f"+{start + 1}", place.log_file), why="log")
            yield site.host.run(tail).stdout
        size = now


def _follow_journal(site: Site, seen: Service, lines: int) -> Iterator[str]:
    command = _journal(seen, site.place, ("-n", str(lines), "--show-cursor"))
    while True:
        text, _, cursor = site.host.run(command).stdout.rpartition("-- cursor: ")
        if text:
            yield text
        time.sleep(_POLL_S)
        if cursor.strip():
            after = ("--show-cursor", f"--after-cursor={cursor.strip()}")
            command = _journal(seen, site.place, after)


def _size(site: Site, path: str) -> int:
    said = site.host.run(Run(argv=("stat", "-c", "%s", path), why="log")).stdout
    return int(said or 0)


def _last(seen: Service, place: Place, lines: int) -> Run:
    if seen.kind == "background":
        return Run(argv=("tail", "-n", str(lines), place.log_file), why="log")
    return _journal(seen, place, ("-n", str(lines)))


def _journal(seen: Service, place: Place, more: tuple[str, ...]) -> Run:
    whose = "--user-unit" if seen.kind == "systemd-user" else "--unit"
    argv = ("journalctl", f"{whose}={place.service}", "--no-pager", "--output=cat", "-q", *more)
    return Run(argv=argv, why="log", sudo=seen.sudo)

"""What the service wrote: its last lines, and new ones as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ddops.errors import HostError
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Result, Run
from ddops.spec.observed import Supervisor
from ddops.spec.place import Place

Ask = Callable[[Run], Result]

_POLL_S = 0.5
_MOST_LINES = 20_000  # of what was written beside one cell
_AWAY_S = 2.0  # between two tries to reach a box that went away


def log_tail(site: Site, lines: int = 50) -> str:
    """The last lines of the service's log; empty when there is none."""
    return site.host.run(_last(site.supervisor, site.place, lines)).stdout


def mark(site: Site) -> Callable[[], str]:
    """A place in the service's log; what it returns gives the text since then, the last of it."""
    by, place = site.supervisor, site.place
    if by.kind == "background":
        size = _size(site.host.run, place.log_file)
        return lambda: _grown(site.host.run, place, size)
    said = site.host.run(_journal(by, place, ("-n", "0", "--show-cursor"))).stdout
    cursor = said.rpartition("-- cursor: ")[2].strip()
    after = (f"--after-cursor={cursor}",) if cursor else ("--boot",)
    return lambda: site.host.run(_journal(by, place, (*after, "-n", str(_MOST_LINES)))).stdout


def follow(site: Site, lines: int, voice: Voice) -> Iterator[str]:
    """The last lines, then new text for ever. By asking again: it works over any host.

    A box that goes away, for a reboot perhaps, is waited for.
    """
    by, place = site.supervisor, site.place

    def ask(command: Run) -> Result:
        return _patiently(site, command, voice)

    if by.kind == "background":
        yield from _follow_file(ask, place, lines)
    else:
        yield from _follow_journal(ask, by, place, lines)


def _patiently(site: Site, command: Run, voice: Voice) -> Result:
    told = ""
    while True:
        try:
            return site.host.run(command)
        except HostError as error:
            if error.subject != told:
                told = error.subject
                voice.warn(f"{told}; waiting for it")
            time.sleep(_AWAY_S)


def _follow_file(ask: Ask, place: Place, lines: int) -> Iterator[str]:
    size = _size(ask, place.log_file)
    yield ask(Run(argv=("tail", "-n", str(lines), place.log_file), why="log")).stdout
    while True:
        time.sleep(_POLL_S)
        now = _size(ask, place.log_file)
        start = 0 if now < size else size  # a new file after the old one reached its cap
        if now > start:
            tail = Run(argv=("tail", "-c", f"+{start + 1}", place.log_file), why="log")
            yield ask(tail).stdout
        size = now


def _follow_journal(ask: Ask, by: Supervisor, place: Place, lines: int) -> Iterator[str]:
    command = _journal(by, place, ("-n", str(lines), "--show-cursor"))
    while True:
        said = ask(command)
        text, _, cursor = said.stdout.rpartition("-- cursor: ")
        if text:
            yield text
        time.sleep(_POLL_S)
        if cursor.strip():
            after = ("--show-cursor", f"--after-cursor={cursor.strip()}")
            command = _journal(by, place, after)
        elif not said.ok:  # a journal in memory begins anew at each boot
            command = _journal(by, place, ("--boot", "--show-cursor"))


def _grown(ask: Ask, place: Place, size: int) -> str:
    start = 0 if _size(ask, place.log_file) < size else size
    since = Run(argv=("tail", "-c", f"+{start + 1}", place.log_file), why="log")
    return "".join(ask(since).stdout.splitlines(keepends=True)[-_MOST_LINES:])


def _size(ask: Ask, path: str) -> int:
    said = ask(Run(argv=("stat", "-c", "%s", path), why="log")).stdout
    return int(said or 0)


def _last(by: Supervisor, place: Place, lines: int) -> Run:
    if by.kind == "background":
        return Run(argv=("tail", "-n", str(lines), place.log_file), why="log")
    return _journal(by, place, ("-n", str(lines)))


def _journal(by: Supervisor, place: Place, more: tuple[str, ...]) -> Run:
    whose = "--user-unit" if by.kind == "systemd-user" else "--unit"
    argv = ("journalctl", f"{whose}={place.service}", "--no-pager", "--output=cat", "-q", *more)
    return Run(argv=argv, why="log", sudo=by.sudo)

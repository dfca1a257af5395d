"""Start, stop and restart the service with the supervisor that the box has."""

from __future__ import annotations

from ddops.spec.command import Command, Run
from ddops.spec.observed import Service
from ddops.spec.place import Place


def restart(seen: Service, place: Place, why: str) -> list[Command]:
    """Stop, then start without waiting: the health gate does the waiting, and sees more."""
    return [*stop(seen, place, why), *start(seen, place, why)]


def start(seen: Service, place: Place, why: str) -> list[Command]:
    if seen.kind == "background":
        return [_keeper("start", place, why)]
    # Always reload: systemd's own notice misses a unit file with an older time.
    verbs: list[tuple[tuple[str, ...], str]] = [
        (("daemon-reload",), "systemd reads units only when told to"),
        (("enable", "--quiet", place.service), "so that it comes back after a reboot"),
        (("start", "--no-block", place.service), why),
    ]
    if seen.state == "failed":
        verbs.insert(1, (("reset-failed", place.service), "it failed before: forget that"))
    return [_systemctl(verb, seen, reason) for verb, reason in verbs]


def stop(seen: Service, place: Place, why: str) -> list[Command]:
    """Nothing to do when nothing runs."""
    if seen.state in ("absent", "stopped", "failed"):
        return []
    if seen.kind == "background":
        return [_keeper("stop", place, why)]
    return [_systemctl(("stop", place.service), seen, why)]


def _keeper(verb: str, place: Place, why: str) -> Run:
    argv = (place.python, "-m", "ddops.host.supervisor", verb, place.home)
    return Run(argv=argv, why=why, title=f"{verb} the service")


def _systemctl(verb: tuple[str, ...], seen: Service, why: str) -> Run:
    user = ("--user",) if seen.kind == "systemd-user" else ()
    return Run(argv=("systemctl", *user, *verb), why=why, sudo=seen.sudo)

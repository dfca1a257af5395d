"""Put the unit and the file with its secrets on the box, when they differ from what lies there."""

from __future__ import annotations

import hashlib

from ddops.spec.command import Command, Put, Run
from ddops.spec.observed import Observed, Service
from ddops.spec.place import Place


def plan(unit: str, env: str, *, seen: Observed, place: Place) -> list[Command]:
    there = seen.service
    commands = put(unit, env, there=there, place=place)
    can = there.kind != "background" and "systemd-analyze" in seen.tools
    if can and sha256(unit) != there.unit_sha256:
        commands.append(_verify(place.unit_path(there.kind), there))
    return commands


def put(unit: str, env: str, *, there: Service, place: Place) -> list[Command]:
    commands: list[Command] = []
    if sha256(env) != there.env_sha256:
        why = "secrets for the service, in no command line"
        commands.append(Put(path=place.env_file, text=env, mode=0o600, why=why))
    if sha256(unit) != there.unit_sha256:
        why = "what to run, and how" if there.state == "absent" else "the unit on the box differs"
        path = place.unit_path(there.kind)
        commands.append(Put(path=path, text=unit, why=why, sudo=there.sudo))
    return commands


def _verify(path: str, there: Service) -> Run:
    user = ("--user",) if there.kind == "systemd-user" else ()
    argv = ("systemd-analyze", *user, "verify", path)
    why = "systemd reads it before anything is stopped"
    return Run(argv=argv, why=why, title="let systemd verify the unit")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Put the unit and the file with its secrets on the box, when they differ from what lies there."""

from __future__ import annotations

import hashlib

from ddops.spec.command import Command, Put
from ddops.spec.observed import Service
from ddops.spec.place import Place


def plan(unit: str, env: str, *, seen: Service, place: Place) -> list[Command]:
    commands: list[Command] = []
    if sha256(env) != seen.env_sha256:
        why = "secrets for the service, in no command line"
        commands.append(Put(path=place.env_file, text=env, mode=0o600, why=why))
    if sha256(unit) != seen.unit_sha256:
        why = "what to run, and how" if seen.state == "absent" else "the unit on the box differs"
        path = place.unit_path(seen.kind)
        commands.append(Put(path=path, text=unit, why=why, sudo=seen.sudo))
    return commands


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

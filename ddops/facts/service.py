"""The service as its supervisor knows it: state, process, restarts, last exit code."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Final

from ddops.errors import UsageError
from ddops.spec.command import Run
from ddops.spec.observed import Service, ServiceState, Supervisor, SupervisorKind, System
from ddops.spec.place import Place

KINDS: Final[tuple[SupervisorKind, ...]] = ("systemd", "systemd-user", "background")
PROPERTIES = (
    "ActiveState,SubState,MainPID,NRestarts,ExecMainStatus,ExecMainCode,ExecMainStartTimestamp"
)
_KILLED = "2"  # CLD_KILLED: ExecMainStatus is a signal, not an exit code
_DUMPED = "3"  # CLD_DUMPED


def supervisor(system: System, wish: str | None = None) -> Supervisor:
    """systemd where it is process 1 and we may use it, else the user's own, else our keeper."""
    kind = _wished(wish) if wish else _found(system)
    return Supervisor(kind=kind, sudo=kind == "systemd" and system.user != "root")


def _wished(name: str) -> SupervisorKind:
    known: dict[str, SupervisorKind] = {kind: kind for kind in KINDS}
    if name not in known:
        raise UsageError(
            f"DDOPS_SUPERVISOR={name} names no supervisor", hint=f"one of {', '.join(KINDS)}"
        )
    return known[name]


def _found(system: System) -> SupervisorKind:
    if system.pid1 == "systemd" and system.root:
        return "systemd"
    return "systemd-user" if system.user_manager else "background"


def wished() -> str | None:
    return os.environ.get("DDOPS_SUPERVISOR")


def command(place: Place, kind: SupervisorKind, properties: str = PROPERTIES) -> Run:
    why = "look at the service"
    if kind == "background":
        return Run(
            argv=(place.python, "-m", "ddops.host.supervisor", "status", place.home), why=why
        )
    user = ("--user",) if kind == "systemd-user" else ()
    unit = f"{place.service}.service"
    show = ("systemctl", *user, "show", unit, "--timestamp=unix", f"--property={properties}")
    return Run(argv=show, why=why)


def loaded(place: Place, kind: SupervisorKind) -> tuple[Run, ...]:
    """systemd's own words for the unit: its files with drop-ins, then every property."""
    user = ("--user",) if kind == "systemd-user" else ()
    unit = f"{place.service}.service"
    why = "look at the unit as it was loaded"
    return tuple(
        Run(argv=("systemctl", *user, verb, unit, "--no-pager"), why=why)
        for verb in ("cat", "show")
    )


def parse(
    text: str,
    by: Supervisor,
    *,
    unit: bytes | None,
    env: bytes | None,
    now: float | None = None,
) -> Service:
    """`unit` and `env` are the files as they lie on the box."""
    ours_keeps = by.kind == "background"
    said = _keeper(json.loads(text)) if ours_keeps else _systemd(text, now or time.time())
    if unit is None:
        said["state"] = "absent"
    ours = {
        **dict(by),
        "unit_sha256": _sha256(unit),
        "env_sha256": _sha256(env),
    }
    return Service.model_validate({**said, **ours})


def _keeper(said: Mapping[str, object]) -> dict[str, object]:
    return {**said, "state": said["state"] or "stopped"}


def _systemd(text: str, now: float) -> dict[str, object]:
    said = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    pid = int(said.get("MainPID") or 0) or None
    started = said.get("ExecMainStartTimestamp", "").removeprefix("@")
    status = int(said.get("ExecMainStatus") or 0)
    code = said.get("ExecMainCode", "0")
    ended = {"0": None, _KILLED: -status, _DUMPED: -status}.get(code, status)
    return {
        "state": _state(said.get("ActiveState", ""), said.get("SubState", "")),
        "pid": pid,
        "uptime_s": now - float(started) if pid and started.isdigit() else None,
        "restarts": int(said.get("NRestarts") or 0),
        "exit_code": None if pid else ended,
    }


def _state(active: str, sub: str) -> ServiceState:
    if active == "active":
        return "running"
    if active in ("activating", "reloading"):
        # auto-restart: the process has ended and the next one has not begun
        return "starting" if sub == "auto-restart" else "running"
    return "failed" if active == "failed" else "stopped"


def _sha256(data: bytes | None) -> str | None:
    return hashlib.sha256(data).hexdigest() if data is not None else None

"""One change at a time: whoever changes a box or measures on it holds its lock while they work."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from ddops.errors import CheckError
from ddops.flows.site import Site
from ddops.flows.voice import Silent, Voice
from ddops.host.base import Held
from ddops.host.process import Process

_POLL_S = 1.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PIDS = Path("/proc/self/ns/pid")


@contextmanager
def locked(
    site: Site, verb: str, *, wait_s: float = 0.0, voice: Voice | None = None
) -> Iterator[None]:
    """Raises `CheckError` naming the holder, after `wait_s` seconds of asking again."""
    with ExitStack() as stack:
        _take(stack, site, verb, wait_s=wait_s, voice=voice or Silent())
        yield


def _take(stack: ExitStack, site: Site, verb: str, *, wait_s: float, voice: Voice) -> None:
    signed, until = json.dumps(_signature(verb)), time.monotonic() + wait_s
    told = freed = ""
    while True:
        try:
            stack.enter_context(site.host.hold(site.place.lock, signed))
            return
        except Held as held:
            holder = _holder(str(held))
            if _has_ended(holder) and str(held) != freed:
                freed = str(held)
                site.host.free(site.place.lock, freed)
                voice.detail(f"{_who(holder)} has ended: its lock is taken")
                continue
            if time.monotonic() >= until:
                raise _held(site, holder) from None
            if told != _who(holder):
                told = _who(holder)
                voice.say(f"waiting for {told}")
            time.sleep(_POLL_S)


def _signature(verb: str) -> dict[str, Any]:
    return {
        **Process.of(os.getpid()).dump(),
        "machine": platform.node(),
        "system": _system(),
        "verb": verb,
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _system() -> str:
    """Where a process number means the same process: this boot of this machine or container."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_PIDS.stat().st_ino}"
    except OSError:
        return f"{psutil.boot_time():.0f}"


def _holder(signed: str) -> dict[str, Any]:
    """Empty while it signs."""
    try:
        found = json.loads(signed)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _has_ended(holder: dict[str, Any]) -> bool:
    """Known only of a process of this very machine."""
    if (holder.get("machine"), holder.get("system")) != (platform.node(), _system()):
        return False
    return not Process(int(holder["pid"]), float(holder["created"])).alive


def _who(holder: dict[str, Any]) -> str:
    pid, verb, machine = (holder.get(key, "?") for key in ("pid", "verb", "machine"))
    where = "" if machine == platform.node() else f" on {machine}"
    return f"`ddops {verb}` (process {pid}{where}, since {holder.get('since', 'just now')})"


def _held(site: Site, holder: dict[str, Any]) -> CheckError:
    where = "" if holder.get("machine") == platform.node() else f" on {holder.get('machine')}"
    return CheckError(
        f"{_who(holder)} is at work on box `{site.box.name}`",
        hint=f"wait for it with `--lock-wait 600`, or end it with `kill {holder.get('pid', '?')}`"
        f"{where}: what it did stays",
    )

"""A host that has weights hands them to another one, without a detour through this machine.

Over HTTP between the two: what comes is checked against the hub's digests, and a path that nobody
else knows keeps others out. It is not encrypted.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx

from ddops.errors import HostError
from ddops.host.aria2 import PORTS
from ddops.host.base import Host
from ddops.spec.command import Result, Run

_START_S: Final = 10.0
_SERVE = Path(__file__).with_name("box_serve.py").read_text("utf-8")
# Of two ends of an SSH connection each knows how it was reached.
_WAY = 'echo "$SSH_CONNECTION"'
_REACHES = """exec timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" 2>/dev/null"""


class Unreachable(Exception):
    """The other host does not get there; the text says where."""


@contextmanager
def giving(giver: Host, taker: Host, folder: str) -> Iterator[str]:
    """The address below which `taker` finds the files. Raises `Unreachable`, `HostError`."""
    port, secret = secrets.choice(PORTS), secrets.token_urlsafe(24)
    argv = ("python3", "-c", _SERVE, str(port), folder)
    serve = Run(argv=argv, why="hand over weights", stdin=f"{secret}\n", timeout_s=None)
    thread = threading.Thread(target=_run, args=(giver, serve), daemon=True)
    thread.start()
    here = f"http://{giver.way('127.0.0.1', port)}"
    try:
        _wait(here, thread, giver)
        address = _address(giver, taker)
        if not _run_sh(taker, _REACHES, address, str(port)).ok:
            raise Unreachable(f"{address} port {port}")
        name = f"[{address}]" if ":" in address else address
        yield f"http://{name}:{port}/{secret}"
    finally:
        with suppress(httpx.TransportError):
            httpx.delete(f"{here}/{secret}", timeout=5.0, trust_env=False)
        thread.join(timeout=10.0)


def _address(giver: Host, taker: Host) -> str:
    """Of the giver, as the taker may know it."""
    reached = _run_sh(giver, _WAY).stdout.split()
    if len(reached) == 4:
        return reached[2]
    coming = _run_sh(taker, _WAY).stdout.split()
    return coming[0] if len(coming) == 4 else "127.0.0.1"


def _run(giver: Host, serve: Run) -> None:
    with suppress(HostError):  # `_wait` finds that it ended
        giver.run(serve)


def _wait(here: str, thread: threading.Thread, giver: Host) -> None:
    until = time.monotonic() + _START_S
    while thread.is_alive() and time.monotonic() < until:
        with suppress(httpx.TransportError):
            httpx.get(here, timeout=5.0, trust_env=False)
            return
        time.sleep(0.05)
    raise HostError(
        f"box `{giver.name}` cannot hand over its weights", hint="it needs `python3` for that"
    )


def _run_sh(host: Host, script: str, *words: str) -> Result:
    return host.run(Run(argv=("sh", "-c", script, "sh", *words), why="find the way between boxes"))

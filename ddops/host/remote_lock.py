"""The lock of a box behind SSH: a process there holds it for as long as we send signs of life."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paramiko import Channel, SSHException

from ddops.errors import HostError
from ddops.host.base import Held

SILENCE_S = 30  # after the last sign of life the lock is free again
_BEAT_S = 5.0

# A killed ddops closes the channel at once; one whose link broke says nothing for too long.
_HOLD = """
mkdir -p -- "$(dirname -- "$1")" && exec 9>>"$1" || exit
flock -n 9 || { echo taken; cat -- "$1"; exit; }
printf %s "$2" > "$1" && echo held
while read -r -t "$3" _; do :; done
"""


@contextmanager
def hold(channel: Channel, path: str, text: str, box: str) -> Iterator[None]:
    """Raises `Held`."""
    done = threading.Event()
    try:
        channel.exec_command(shlex.join(("bash", "-c", _HOLD, "bash", path, text, str(SILENCE_S))))
        _must_be_ours(channel, path, box)
        threading.Thread(target=_beat, args=(channel, done), daemon=True).start()
        yield
    finally:
        done.set()
        channel.close()


def _must_be_ours(channel: Channel, path: str, box: str) -> None:
    with channel.makefile("rb") as said:
        answer = bytes(said.readline()).strip()
        if answer == b"taken":
            raise Held(bytes(said.read()).decode("utf-8", "replace"))
    if answer != b"held":
        with channel.makefile_stderr("rb") as said:
            reason = bytes(said.read()).decode("utf-8", "replace").strip()
        raise HostError(f"{path} on box `{box}` cannot be locked", detail=reason or None)


def _beat(channel: Channel, done: threading.Event) -> None:
    with suppress(SSHException, OSError, EOFError):
        while not done.wait(_BEAT_S):
            channel.sendall(b"\n")

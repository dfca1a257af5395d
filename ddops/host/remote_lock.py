"""The lock of a box behind SSH: a process there holds it for as long as we send signs of life.

It outlives the connection it came by: whoever comes back in time, with the same signature, goes on
holding it. So a link that breaks gives nobody else the box, and a ddops that died blocks it not
for long. The clock that counts is the box's, and only how much of it passes.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from paramiko import Channel, SSHException

from ddops.errors import HostError
from ddops.host.base import Held

SILENCE_S = 30  # after the last sign of life the lock is free again
CUT_S = 10  # the same when the connection was closed: most often its ddops has ended
_BEAT_S = 5.0
_POLL_S = 0.5

# Asks whoever holds the lock with this signature, and no other, to let go.
_RELEASE = """
release() {
  printf %s "$2" > "$1.free" && flock -w 5 9
  rm -f -- "$1.free"
}
"""

# Signs of life are the time of the file. Who holds the lock watches it; a session that came back
# only touches it.
_HOLD = (
    _RELEASE
    + """
path=$1 text=$2 limit=$3 cut=$4
trap '' HUP PIPE
mkdir -p -- "$(dirname -- "$path")" && exec 9>>"$path" || exit
if flock -n 9; then
  mine=yes
  [ -z "$5" ] || [ "$(< "$path")" = "$text" ] || { echo taken; cat -- "$path"; exit; }
  printf %s "$text" > "$path"
elif [ "$(< "$path")" != "$text" ]; then
  echo taken; cat -- "$path"; exit
fi
echo held
seen= idle=0 open=yes
while [ $idle -lt $limit ]; do
  if [ $open ]; then
    read -r -t 1 word; code=$?
    if [ $code = 0 ] && [ "$word" = end ]; then
      [ $mine ] || release "$path" "$text"
      echo ended; exit
    fi
    [ $code != 0 ] || touch -- "$path"
    [ $code = 0 ] || [ $code -gt 128 ] || { open= limit=$cut; }
  else
    [ $mine ] || exit
    sleep 1 9>&-
  fi
  [ ! -e "$path.free" ] || [ "$(cat -- "$path.free")" != "$text" ] || exit
  now=$(stat -c %y -- "$path")
  if [ "$now" = "$seen" ]; then idle=$((idle + 1)); else seen=$now idle=0; fi
done
"""
)

_FREE = _RELEASE + 'exec 9>>"$1" && release "$1" "$2"'


class Lease:
    """Hold the lock `path` of a box, whatever becomes of the connection. Raises `Held`."""

    def __init__(self, channel: Callable[[], Channel], path: str, text: str, box: str) -> None:
        self._new_channel, self.path, self.text, self.box = channel, path, text, box
        self._done = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._lost: str | None = None

    def __enter__(self) -> Self:
        self._channel = self._attach(back="")
        self._keeper.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._keeper.join()
        with suppress(SSHException, OSError, EOFError):
            self._channel.sendall(b"end\n")
            self._channel.settimeout(_BEAT_S)
            while self._channel.recv(1024):
                pass
        self._channel.close()

    def check(self) -> None:
        """Raises `HostError` when the lock is no longer ours: somebody else may be at work."""
        if self._lost is not None:
            raise HostError(
                f"box `{self.box}` could not be reached for too long: its lock is no longer ours",
                detail=self._lost or None,
                hint="run the same command again: it looks at what was done, and goes on",
            )

    def _attach(self, back: str) -> Channel:
        channel = self._new_channel()
        words = (self.path, self.text, str(SILENCE_S), str(CUT_S), back)
        channel.exec_command(shlex.join(("bash", "-c", _HOLD, "bash", *words)))
        _must_be_ours(channel, self.path, self.box)
        return channel

    def _keep(self) -> None:
        beaten = time.monotonic()
        while not self._done.wait(_POLL_S):
            now = time.monotonic()
            if self._channel.closed or self._channel.eof_received:
                if not self._came_back():
                    return
                beaten = now
            elif now - beaten > _BEAT_S:
                beaten = now
                with suppress(SSHException, OSError, EOFError):
                    self._channel.sendall(b"\n")

    def _came_back(self) -> bool:
        until = time.monotonic() + SILENCE_S
        while not self._done.wait(_POLL_S):
            try:
                self._channel = self._attach(back="back")
                return True
            except Held as held:
                self._lost = str(held)
                return False
            except (HostError, SSHException, OSError, EOFError):
                if time.monotonic() > until:
                    self._lost = ""
                    return False
        return False


def free(channel: Channel, path: str, text: str) -> None:
    """Take the lock from a holder that has ended, known by its signature `text`."""
    with channel:
        channel.exec_command(shlex.join(("bash", "-c", _FREE, "bash", path, text)))
        channel.recv_exit_status()


def _must_be_ours(channel: Channel, path: str, box: str) -> None:
    with channel.makefile("rb") as said:
        answer = bytes(said.readline()).strip()
        if answer == b"taken":
            raise Held(bytes(said.read()).decode("utf-8", "replace"))
    if answer != b"held":
        with channel.makefile_stderr("rb") as said:
            reason = bytes(said.read()).decode("utf-8", "replace").strip()
        raise HostError(
            f"{path} on box `{box}` cannot be locked: {reason or 'it does not answer'}",
            hint="free some space there" if "No space" in reason else None,
        )

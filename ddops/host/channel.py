"""Run one command over an SSH transport: output, exit code, time limit, nothing left behind."""

from __future__ import annotations

import re
import select
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from paramiko import Channel, SSHException, Transport

from ddops.spec.command import Run

_GRACE_S = 10.0  # beyond the command's own limit, which the box itself enforces
_TICK_S = 0.5
_BLOCK = 1 << 16  # bytes
_PID = re.compile(rb"^ddops-pid (\d+)\n", re.M)

# `timeout` leads a process group and ends all of it; its number is how we end it from here. When
# the session's sshd ($0) has gone, nobody waits for the command any more: it is ended too.
_WRAP = """
exec 3<&0
timeout --kill-after=5 "$@" <&3 3<&- &
command=$!
echo "ddops-pid $command" >&2
exec 3<&-
{
  while sleep 1 && kill -0 $command; do
    [ -d "/proc/$0" ] || { kill $command; break; }
  done
} </dev/null >/dev/null 2>&1 &
watch=$!
wait $command
code=$?
kill $watch
exit $code
"""


class Lost(Exception):
    """The connection broke, or the box fell silent."""


class TookTooLong(Exception):
    pass


@dataclass(frozen=True)
class Said:
    code: int
    stdout: bytes
    stderr: bytes


def line_of(command: Run) -> str:
    """For whatever shell the user has on the box: plain words, quoted."""
    env = ("env", *(f"{k}={v}" for k, v in sorted(command.env.items()))) if command.env else ()
    sudo = "sudo -n -- " if command.sudo else ""
    limit = f"{command.timeout_s:g}" if command.timeout_s else "0"
    begin = f'exec {sudo}sh -c "$0" "$PPID" "$@"'
    words = shlex.join(("sh", "-c", begin, _WRAP, limit, *env, *command.argv))
    return f"cd {shlex.quote(command.cwd)} && {words}" if command.cwd else words


def execute(
    channel: Channel,
    command: Run,
    *,
    stdin: bytes | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Said:
    """`stdin` replaces the command's own. Raises `Lost`, `TookTooLong`; then the group is ended."""
    talk = _Talk(channel, stdin if stdin is not None else (command.stdin or "").encode(), tick)
    began = time.monotonic()
    limit = command.timeout_s
    try:
        channel.exec_command(line_of(command))
        talk.until_the_end(began + limit + _GRACE_S if limit else None)
        code = channel.recv_exit_status()
        if code == -1 and not _transport(channel).is_active():
            raise Lost
    except (SSHException, OSError, EOFError) as error:
        raise Lost(str(error)) from error
    except (KeyboardInterrupt, TookTooLong):
        _end(channel, talk, command)
        raise
    finally:
        channel.close()
    if code == 124 and limit and time.monotonic() - began >= limit:
        raise TookTooLong
    return Said(_as_local(code), bytes(talk.stdout), _PID.sub(b"", bytes(talk.stderr), count=1))


class _Talk:
    """Sends and reads at the same time, or both sides would wait for each other."""

    def __init__(self, channel: Channel, stdin: bytes, tick: Callable[[], None]) -> None:
        self.channel, self.tick = channel, tick
        self.left = memoryview(stdin)
        self.sent = False
        self.stdout, self.stderr = bytearray(), bytearray()

    def until_the_end(self, deadline: float | None) -> None:
        ticked = time.monotonic()
        while not self._over():
            self._send()
            select.select([self.channel], [], [], 0.01 if self.left else _TICK_S)
            self._read()
            now = time.monotonic()
            if now - ticked > _TICK_S:
                self.tick()
                ticked = now
            if deadline and now > deadline:
                raise TookTooLong
            if not _transport(self.channel).is_active():
                raise Lost

    def _over(self) -> bool:
        """The exit code comes after the last output."""
        waiting = self.channel.recv_ready() or self.channel.recv_stderr_ready()
        ended = self.channel.exit_status_ready() and self.channel.eof_received
        return bool(ended) and not waiting

    def _send(self) -> None:
        while self.left and self.channel.send_ready():
            try:
                self.left = self.left[self.channel.send(self.left[:_BLOCK].tobytes()) :]
            except OSError:  # the command has closed its input: its exit code tells the rest
                self.left = self.left[:0]
        if not self.left and not self.sent:
            self.sent = True
            with suppress(OSError):
                self.channel.shutdown_write()

    def _read(self) -> None:
        while self.channel.recv_ready():
            self.stdout += self.channel.recv(_BLOCK)
        while self.channel.recv_stderr_ready():
            self.stderr += self.channel.recv_stderr(_BLOCK)


def _end(channel: Channel, talk: _Talk, command: Run) -> None:
    """End what runs on the box: closing the channel alone would leave it running."""
    found = _PID.search(bytes(talk.stderr))
    if not found:
        return
    kill = shlex.join((*(("sudo", "-n") if command.sudo else ()), "kill", found[1].decode()))
    with suppress(SSHException, OSError, EOFError):
        ender = _transport(channel).open_session(timeout=_GRACE_S)
        ender.settimeout(_GRACE_S)
        ender.exec_command(kill)
        ender.recv(1)
        ender.close()


def _transport(channel: Channel) -> Transport:
    transport: Transport = channel.get_transport()
    return transport


def _as_local(code: int) -> int:
    """A shell says 128 + N for signal N; `subprocess`, and so the rest of ddops, says -N."""
    return 128 - code if 128 < code < 160 else code

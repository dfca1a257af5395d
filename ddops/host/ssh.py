"""A machine behind SSH as a `Host`. All it needs there are a shell and coreutils."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

from fabric import Connection
from paramiko import Channel, SSHException, Transport

from ddops.errors import HostError, StepError
from ddops.host import connection, pull, remote_files, remote_lock
from ddops.host.base import Progress
from ddops.host.channel import Lost, Said, TookTooLong, execute
from ddops.host.connection import Patience
from ddops.host.known_hosts import KnownHosts
from ddops.host.openssh import OpenSsh
from ddops.host.tunnel import Tunnel
from ddops.spec.box import Reach
from ddops.spec.command import Command, Extract, Fetch, Pull, Put, Result, Run

_TAIL = 20  # lines of a failed command's output in its error
_NO_SUDO = ("password is required", "terminal is required", "not in the sudoers", "not allowed")


def _nothing() -> None:
    """Between two looks at a command there is nothing to do."""


@dataclass
class Ssh:
    """Connects at first use. A broken connection is opened again, once for each command."""

    name: str
    reach: Reach
    keys: KnownHosts
    patience: Patience = field(default_factory=Patience)
    _connection: Connection | None = None
    _tunnels: dict[tuple[str, int], Tunnel] = field(default_factory=dict)
    _bulk: OpenSsh | None = None
    _opening: threading.RLock = field(default_factory=threading.RLock)
    _lease: remote_lock.Lease | None = None

    def run(self, command: Run) -> Result:
        """Looking twice does no harm: when its connection breaks, it is run again, once."""
        try:
            return self._result(command)
        except Lost:
            return self._once(command)

    def read(self, path: str) -> bytes | None:
        return remote_files.read(self._sh, self._expanded(path))

    def apply(self, command: Command, progress: Progress | None = None) -> Result | None:
        tell = progress or (lambda done, total: None)
        if self._lease:
            self._lease.check()
        match command:
            case Run():
                return self._must(command)
            case Put():
                remote_files.put(self._sh, command)
            case Fetch():
                remote_files.fetch(self._sh, command, tell)
            case Pull():
                pull.pull(self, command, tell)
            case Extract():
                remote_files.extract(self._sh, command)
        return None

    def close(self) -> None:
        for tunnel in self._tunnels.values():
            tunnel.close()
        self._tunnels.clear()
        if self._bulk is not None:
            self._bulk.close()
        self._drop()

    @cached_property
    def home(self) -> str:
        """The user's home folder on the box."""
        find = Run(argv=("sh", "-c", "cd && pwd"), why="find the home folder")
        return self.run(find).stdout.strip() or "/"

    def way(self, address: str, port: int) -> str:
        key = (address.strip("[]"), port)
        if key not in self._tunnels:
            self._tunnels[key] = Tunnel(*key, self._through)
        return f"127.0.0.1:{self._tunnels[key].port}"

    def bulk(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        self._open()  # from here on its key is known
        self._bulk = self._bulk or OpenSsh(self.reach, self.keys)
        return self._bulk.line(argv)

    @contextmanager
    def hold(self, path: str, text: str) -> Iterator[None]:
        """For as long as it is held, `apply` refuses to work once somebody else has it."""
        with remote_lock.Lease(self._channel, path, text, self.name) as self._lease:
            try:
                yield
            finally:
                self._lease = None

    def free(self, path: str, text: str) -> None:
        remote_lock.free(self._channel(), path, text)

    def _result(self, command: Run) -> Result:
        began = time.monotonic()
        said = self._execute(command)
        return Result(
            argv=(*(("sudo", "-n") if command.sudo else ()), *command.argv),
            code=said.code,
            stdout=said.stdout.decode("utf-8", "replace"),
            stderr=said.stderr.decode("utf-8", "replace"),
            seconds=time.monotonic() - began,
        )

    def _once(self, command: Run) -> Result:
        try:
            return self._result(command)
        except Lost as lost:
            raise self._broke(command, lost) from None

    def _must(self, command: Run) -> Result:
        """A change is not made twice on a guess: the user's next run looks at the box first."""
        result = self._once(command)
        if not result.ok:
            said = (result.stderr or result.stdout).strip().splitlines()[-_TAIL:]
            raise StepError(
                f"`{command.line}` ended with exit code {result.code} on box `{self.name}`",
                detail="\n".join(said) or None,
                hint="set it right, then run the same command again: it goes on from here",
            )
        return result

    def _sh(
        self,
        script: str,
        *words: str,
        stdin: bytes = b"",
        sudo: bool = False,
        timeout_s: float | None = 600.0,
        tick: Callable[[], None] = _nothing,
    ) -> Said:
        """Every script of `remote_files` may be run again."""
        argv = ("sh", "-c", script, "sh", *words)
        command = Run(argv=argv, why="files of the box", sudo=sudo, timeout_s=timeout_s)
        with suppress(Lost):
            return self._execute(command, stdin=stdin, tick=tick)
        try:
            return self._execute(command, stdin=stdin, tick=tick)
        except Lost as lost:
            raise self._broke(command, lost) from None

    def _execute(
        self,
        command: Run,
        stdin: bytes | None = None,
        tick: Callable[[], None] = _nothing,
    ) -> Said:
        channel = self._channel()
        try:
            said = execute(channel, command, stdin=stdin, tick=tick)
        except TookTooLong:
            raise HostError(
                f"`{command.line}` did not end within {command.timeout_s:.0f} s",
                hint="run it by hand on the box to see what it waits for",
            ) from None
        except Lost:
            self._drop(channel)
            raise
        if command.sudo and said.code == 1:
            self._check_sudo(said)
        return said

    def _check_sudo(self, said: Said) -> None:
        text = said.stderr.decode("utf-8", "replace")
        if "sudo:" in text and any(words in text for words in _NO_SUDO):
            user = self._open().user
            raise HostError(
                f"user `{user}` of box `{self.name}` may not use sudo without a password",
                detail=text.strip(),
                hint=f"on the box, as root: `echo '{user} ALL=(ALL) NOPASSWD: ALL'"
                f" > /etc/sudoers.d/{user}`, or set `reach.user: root`",
            )

    def _channel(self) -> Channel:
        """A connection that died unnoticed is found out here, before anything was sent."""
        with self._opening:
            if self._connection is not None:
                with suppress(SSHException, OSError, EOFError):
                    return self._session(self._connection.transport)
                self._drop()
            try:
                return self._session(self._open().transport)
            except (SSHException, OSError, EOFError) as error:
                raise HostError(
                    f"box `{self.name}` accepts a connection but no command: {error}",
                    hint="its sshd may limit sessions: look at MaxSessions in its sshd_config",
                ) from error

    def _session(self, transport: Transport) -> Channel:
        return transport.open_session(timeout=self.patience.connect_s)

    def _through(self, address: str, port: int) -> Channel:
        transport: Transport = self._open().transport
        seconds = self.patience.connect_s
        return transport.open_channel(
            "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=seconds
        )

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = connection.connect(self.reach, self.keys, self.patience)
        return self._connection

    def _drop(self, channel: Channel | None = None) -> None:
        """Of a channel that broke: only its own connection, which may have been replaced."""
        with self._opening:
            current = self._connection
            if current is None or (channel and channel.get_transport() is not current.transport):
                return
            connection.close(current)
            self._connection = None

    def _expanded(self, path: str) -> str:
        return f"{self.home}{path[1:]}" if path.startswith("~/") else path

    def _broke(self, command: Run, lost: Lost) -> HostError:
        what = command.title or " ".join(command.argv[:2])
        return HostError(
            f"the connection to box `{self.name}` broke during `{what}`",
            detail=str(lost) or None,
            hint="run the same command again: it looks at what was done, and goes on from there",
        )

"""aria2c on a host, started for one download and told what to do by its RPC.

It listens on the host's loopback and answers to a secret that no list of arguments holds. It ends
with whoever started it: with this process, or with the SSH session.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx

from ddops.errors import DdopsError, HostError, WeightsError
from ddops.host import hub
from ddops.host.base import Host
from ddops.host.patience import Again
from ddops.spec.command import Result, Run

if TYPE_CHECKING:
    import aria2p

CONNECTIONS: Final = 16  # a file; aria2 allows no more to one server
FILES: Final = 4  # at once: one is hashed, or at its last connections, while others come
FLOOR: Final = 16 << 10  # bytes/s of one connection; a slower one is opened again
SILENCE_S: Final = 60.0  # without a new byte until a file is asked for anew
_START_S = 15.0
_ENDS_S = 30  # a killed one's aria2c sees within a second that it is alone
_POLL_S = 0.2
PORTS: Final = range(20_000, 32_768)  # below those that outgoing connections take
_TAKEN = 75
_ABORTED, _NO_RESUME, _BAD_ANSWER = "1", "8", "22"
_DISK = {"9", "15", "16", "17", "18"}  # full, or it cannot be opened, made, written

# The lock is aria2c's as long as it lives: two never write to one folder. Whoever has it may take
# away what a killed one left.
_DAEMON = """
umask 022
mkdir -p "$1/.cache/ddops" && cd "$1/.cache/ddops" && echo $$ >"$2.pid" && exec 9<"$1" || exit
flock -w "$3" 9 || exit 75
for old in ./*.pid; do grep -qs ddops "/proc/$(cat "$old")/cmdline" || rm -f "$old"; done
(umask 077 && rm -f aria2.conf && cat >aria2.conf) &&
exec aria2c --conf-path="$PWD/aria2.conf" --stop-with-process="$PPID"
"""
# Its own `shutdown` waits three seconds; at a signal it saves and ends within one.
_END = """
cd "$1/.cache/ddops" && [ -f "$2.pid" ] || exit 0
[ -z "$3" ] || kill -"$3" "$(cat "$2.pid")"
rm -f "$2.pid" aria2.conf
cd .. && rmdir ddops
"""


def installed(host: Host) -> bool:
    argv = ("sh", "-c", "command -v aria2c && command -v flock")
    return host.run(Run(argv=argv, why="look for aria2")).ok


@contextmanager
def daemon(host: Host, folder: str, stopping: threading.Event) -> Iterator[Daemon]:
    made = Daemon(host, folder, stopping)
    try:
        yield made
    except BaseException:
        made.stop("TERM")
        raise
    made.stop("KILL")  # everything has come: there is nothing to save


@dataclass
class Daemon:
    """Starts at the first `get`, and again when it was killed."""

    host: Host
    folder: str
    stopping: threading.Event  # set, it makes every `get` raise `Stopped`
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    _client: aria2p.Client | None = None
    _thread: threading.Thread | None = None
    _ended: list[Result | HostError] = field(default_factory=list)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def get(self, url: str, part: str, tell: Callable[[float], None]) -> None:
        """Bring `url` to `part` below the folder, going on where its control file says.

        `tell` hears the bytes that are there. Raises `Again`, also shortly before the address runs
        out; `NotServed`; `NoWriting`; `Stopped`.
        """
        client = self._up()
        with self._reached():
            gid = client.add_uri([url], {"dir": self.folder, "out": part})
            try:
                self._wait(client, gid, tell, hub.lasts(url))
            finally:
                with suppress(Again), self._reached():  # it has ended, when all went well
                    client.force_remove(gid)

    def stop(self, signal: Literal["TERM", "KILL"]) -> None:
        """Nothing is left running, and after TERM what has come is written down."""
        self.stopping.set()
        self._end(signal)

    def _wait(
        self, client: aria2p.Client, gid: str, tell: Callable[[float], None], lasts_s: float
    ) -> None:
        until = time.monotonic() + lasts_s
        keys = ["status", "completedLength", "errorCode", "errorMessage"]
        most, since = -1.0, time.monotonic()
        while True:
            said = client.tell_status(gid, keys)
            have, now = float(said["completedLength"]), time.monotonic()
            if have > most:
                most, since = have, now
                tell(have)
            if said["status"] == "complete":
                return
            if said["status"] in ("error", "removed"):
                raise _failure(said, self.folder)
            if now > until:
                raise Again("its address runs out")
            if now - since > SILENCE_S:
                raise Again(f"not a byte came for {SILENCE_S:.0f} s")
            if self.stopping.wait(_POLL_S):
                raise Stopped

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Whatever is wrong with the RPC, asking a living aria2c again is the cure."""
        from aria2p import ClientException

        try:
            yield
        except (ClientException, httpx.TransportError, ValueError) as error:
            raise Again(f"aria2c does not answer: {error}") from None

    def _up(self) -> aria2p.Client:
        with self._starting:
            if self._client and self._thread and self._thread.is_alive():
                return self._client
            for _ in range(5):  # another program may hold the port
                if self.stopping.is_set():
                    raise Stopped
                self._client = self._started()
                if self._client:
                    return self._client
                if self._refused:
                    raise self._refused
                self._end("KILL")  # it may live, and listen where only IPv6 was free
            raise self._no_start()

    def _started(self) -> aria2p.Client | None:
        port, secret = secrets.choice(PORTS), secrets.token_hex(16)
        argv = ("sh", "-c", _DAEMON, "sh", self.folder, self.name, str(_ENDS_S))
        conf = "".join(f"{k}={v}\n" for k, v in _options(port, secret).items())
        start = Run(argv=argv, why="download", title="aria2c", stdin=conf, timeout_s=None)
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, args=(start,), daemon=True)
        self._thread.start()
        client = _rpc(self.host.way("127.0.0.1", port), secret)
        until = time.monotonic() + _ENDS_S + _START_S
        while self._thread.is_alive() and time.monotonic() < until:
            with suppress(Again), self._reached():
                client.get_version()
                return client
            self.stopping.wait(0.05)
        return None

    def _end(self, signal: Literal["TERM", "KILL"]) -> None:
        if self._thread:
            alive = signal if self._thread.is_alive() else ""
            argv = ("sh", "-c", _END, "sh", self.folder, self.name, alive)
            self.host.run(Run(argv=argv, why="end aria2", timeout_s=30.0))
            self._thread.join(timeout=10.0)

    def _run(self, start: Run) -> None:
        try:
            self._ended.append(self.host.run(start))
        except HostError as error:
            self._ended.append(error)

    @property
    def _refused(self) -> DdopsError | None:
        """Why another port would not help."""
        last = self._ended[-1] if self._ended else None
        if isinstance(last, Result) and last.code == _TAKEN:
            return WeightsError(
                f"another download to {self.folder} is at work",
                hint="wait for it, then run the same command again",
            )
        return last if isinstance(last, HostError) else None

    def _no_start(self) -> WeightsError:
        last = self._ended[-1] if self._ended else None
        said = f"{last.stdout}{last.stderr}" if isinstance(last, Result) else ""
        return WeightsError(
            "aria2c does not start",
            detail="\n".join(said.strip().splitlines()[-3:]) or None,
            hint="`aria2c --version` on the box shows whether it works at all",
        )


def _options(port: int, secret: str) -> dict[str, Any]:
    return {
        "enable-rpc": "true",
        "rpc-listen-all": "false",
        "rpc-listen-port": port,
        "rpc-secret": secret,
        "max-concurrent-downloads": FILES,
        "max-connection-per-server": CONNECTIONS,
        "split": CONNECTIONS,
        "min-split-size": "1M",  # of the default, 20M, a small file opens too few
        "continue": "true",
        "allow-overwrite": "true",
        "auto-file-renaming": "false",
        "auto-save-interval": 1,  # seconds of work that a kill can cost
        "file-allocation": "none",
        "max-tries": 0,
        "retry-wait": 1,
        "timeout": 20,
        "connect-timeout": 10,
        "lowest-speed-limit": FLOOR,
        "no-netrc": "true",
        "console-log-level": "error",
        "show-console-readout": "false",
        "summary-interval": 0,
        "enable-color": "false",
    }


def _rpc(address: str, secret: str) -> aria2p.Client:
    import aria2p

    class Client(aria2p.Client):
        """As the library's, which would send the secret through the user's proxy."""

        def post(self, payload: str) -> dict[str, Any]:
            answer = httpx.post(self.server, content=payload, timeout=20.0, trust_env=False)
            said: dict[str, Any] = answer.json()
            return said

    name, port = address.rsplit(":", 1)
    return Client(host=f"http://{name}", port=int(port), secret=secret)


def _failure(said: dict[str, str], folder: str) -> Exception:
    code, text = said.get("errorCode", ""), said.get("errorMessage", "")
    if code in _DISK:
        return NoWriting(
            f"{folder} cannot take it: {text or f'aria2c says {code}'}",
            hint="set it right, then run the same command again: what came is kept",
        )
    if code == _NO_RESUME:
        return NoResume("the server does not go on where a file stopped")
    if code == _BAD_ANSWER and "status=400" in text:
        return NotServed(text)
    if code == _ABORTED:
        return Aborted(text or "aria2c gives no reason")
    return Again(text or f"aria2c says {code}")


class Stopped(Exception):
    """Somebody else's failure, or Ctrl-C."""


class NoWriting(WeightsError):
    """A file cannot be opened, made or written."""


class NoResume(Again):
    """What is there must go before the file can come."""


class NotServed(Exception):
    """Stores serve no file of hundreds of gigabytes by one address; the hub's own client can."""


class Aborted(Again):
    """Nothing of the network: the disk is full, or the control file cannot be read."""

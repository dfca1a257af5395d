"""Keeps one process running, as systemd would: restarts with a limit, final exit codes, no orphans.

Runs in a session of its own, single-threaded. What it knows it writes to `state.json`; nothing
reads its memory, so it may die at any time.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from ddops.host import atomic
from ddops.host.process import Process

State = Literal["running", "starting", "stopped", "failed"]

LOG_CAP = 20_000_000  # bytes; one older file of the same size is kept
LONGEST_DELAY_S = 30.0
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR")
_POLL_S = 0.1
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Orders:
    """`unit.json`, as `render/unit.py` writes it."""

    argv: list[str]
    workdir: str
    env: dict[str, str]
    env_file: str
    stop_timeout_s: float
    start_limit: int
    start_window_s: float
    restart_delay_s: float
    final_exit_codes: list[int]

    def environment(self) -> dict[str, str]:
        """As bare as systemd's: what the user's shell exported must not change the service."""
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**kept, **self.env, **_assignments(Path(self.env_file))}


class Keeper:
    def __init__(self, home: Path) -> None:
        self.home = home
        text = (home / "unit.json").read_bytes()
        self.orders = Orders(**json.loads(text))
        self.sha256 = hashlib.sha256(text).hexdigest()
        self.log = Log(home / "service.log")
        self.child: subprocess.Popen[bytes] | None = None
        self.crashes: list[float] = []
        self.restarts = 0
        self.exit_code: int | None = None
        self.stopping = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        while not self.stopping:
            self.exit_code = self._live()
            if self.stopping or self.exit_code == 0:
                break
            if self._is_final(self.exit_code):
                self.write("failed")
                return
            self._wait_before_restart()
        self.write("stopped")

    def write(self, state: State) -> None:
        child = self.child
        running = child is not None and child.poll() is None
        data: dict[str, Any] = {
            "state": state,
            "keeper": Process.of(os.getpid()).dump(),
            "child": Process.of(child.pid).dump() if child and running else None,
            "restarts": self.restarts,
            "exit_code": self.exit_code,
            "unit_sha256": self.sha256,
        }
        atomic.write(self.home / "state.json", json.dumps(data).encode())

    def _live(self) -> int:
        """One life of the process, from start to exit code."""
        try:
            self.child = subprocess.Popen(
                self.orders.argv,
                cwd=self.orders.workdir,
                env=self.orders.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_dies_with(os.getpid()),
            )
        except OSError as error:
            self.log.note(f"cannot start {self.orders.argv[0]}: {error}")
            return 127
        self.log.note(f"started process {self.child.pid}")
        self.write("running")
        code = self._attend(self.child)
        self.log.note(f"process {self.child.pid} ended: {describe(code)}")
        _signal_group(self.child.pid, signal.SIGKILL)  # what it started and left behind
        return code

    def _attend(self, child: subprocess.Popen[bytes]) -> int:
        """Copy its output to the log until it ends; on SIGTERM end it, first kindly."""
        assert child.stdout is not None, "stdout is a pipe"
        deadline: float | None = None
        while (code := child.poll()) is None:
            self._copy(child.stdout.fileno())
            if self.stopping and deadline is None:
                child.terminate()
                deadline = time.monotonic() + self.orders.stop_timeout_s
            elif deadline is not None and time.monotonic() > deadline:
                self.log.note(f"still there after {self.orders.stop_timeout_s:.0f} s, killed")
                _signal_group(child.pid, signal.SIGKILL)
                deadline = float("inf")
        while self._copy(child.stdout.fileno(), wait_s=0.0):
            pass
        child.stdout.close()
        return code

    def _copy(self, pipe: int, *, wait_s: float = _POLL_S) -> bool:
        readable, _, _ = select.select([pipe], [], [], wait_s)
        data = os.read(pipe, 65536) if readable else b""
        if readable and not data:
            time.sleep(wait_s)  # it closed its output but lives on
        self.log.write(data)
        return bool(data)

    def _is_final(self, code: int) -> bool:
        if code in self.orders.final_exit_codes:
            self.log.note("starting it again would end the same way: given up")
            return True
        now = time.monotonic()
        self.crashes = [t for t in self.crashes if now - t < self.orders.start_window_s] + [now]
        if len(self.crashes) >= self.orders.start_limit:
            self.log.note(f"ended {len(self.crashes)} times in a short time: given up")
            return True
        return False

    def _wait_before_restart(self) -> None:
        delay = min(self.orders.restart_delay_s * 2 ** (len(self.crashes) - 1), LONGEST_DELAY_S)
        self.restarts += 1
        self.write("starting")
        self.log.note(f"starting it again in {delay:.1f} s")
        until = time.monotonic() + delay
        while not self.stopping and time.monotonic() < until:
            time.sleep(_POLL_S)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True


class Log:
    """A file that never grows beyond twice its cap."""

    def __init__(self, path: Path, cap: int = LOG_CAP) -> None:
        self.path = path
        self.cap = cap
        self.file = path.open("ab")

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.file.flush()
        if self.file.tell() > self.cap:
            self.file.close()
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            self.file = self.path.open("ab")

    def note(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.write(f"[ddops {stamp}] {text}\n".encode())


def describe(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _assignments(path: Path) -> dict[str, str]:
    """NAME="value" lines, the part of systemd's EnvironmentFile syntax that ddops writes."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name: value.strip('"') for name, value in pairs}


def _dies_with(parent: int) -> Callable[[], None] | None:
    """Linux ends the child when its keeper is killed; elsewhere the next `start` finds it."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return bind


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return

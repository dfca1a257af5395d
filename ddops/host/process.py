"""Which process is meant: a pid with its start time, so a recycled pid is never mistaken.

Linux tells both in /proc. psutil would too, but takes as long to load as all else in a `status`,
which is asked several times a second while an engine starts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psutil

_CLOCK_STEP_S = 2.0  # the start time is computed from the wall clock, which may be set
_STATE, _START = 0, 19  # of what /proc/PID/stat says behind the name, which may hold anything


class Process(NamedTuple):  # no dataclass: `status` would load `inspect` for it
    pid: int
    created: float  # seconds since the epoch

    @classmethod
    def of(cls, pid: int) -> Process:
        """Raises `ProcessLookupError`."""
        created = _created(pid)
        if created is None:
            raise ProcessLookupError(pid)
        return cls(pid, created)

    @classmethod
    def load(cls, data: dict[str, Any] | None) -> Process | None:
        return cls(int(data["pid"]), float(data["created"])) if data else None

    def dump(self) -> dict[str, Any]:
        return self._asdict()

    @property
    def alive(self) -> bool:
        """False when it has ended, even if its pid is in use again or it waits to be reaped."""
        created = _created(self.pid)
        return created is not None and abs(created - self.created) < _CLOCK_STEP_S

    def handle(self) -> psutil.Process | None:
        """To send it a signal. None when it has ended."""
        import psutil

        try:
            return psutil.Process(self.pid) if self.alive else None
        except psutil.NoSuchProcess:
            return None


def _created(pid: int) -> float | None:
    """When it started, in seconds since the epoch; None for one that has ended."""
    if sys.platform != "linux":
        return _elsewhere(pid)
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if said[_STATE] in (b"Z", b"X"):
        return None
    return _booted() + int(said[_START]) / os.sysconf("SC_CLK_TCK")


def _booted() -> int:
    lines = Path("/proc/stat").read_bytes().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(b"btime "))


def _elsewhere(pid: int) -> float | None:
    import psutil

    try:
        seen = psutil.Process(pid)
        return None if seen.status() == psutil.STATUS_ZOMBIE else float(seen.create_time())
    except psutil.NoSuchProcess:
        return None

"""Which process is meant: a pid with its start time, so a recycled pid is never mistaken."""

from __future__ import annotations

from typing import Any, NamedTuple

import psutil

_CLOCK_STEP_S = 2.0  # the start time is computed from the wall clock, which may be set


class Process(NamedTuple):  # no dataclass: `status` would load `inspect` for it
    pid: int
    created: float  # seconds since the epoch

    @classmethod
    def of(cls, pid: int) -> Process:
        """Raises `psutil.NoSuchProcess`."""
        return cls(pid, psutil.Process(pid).create_time())

    @classmethod
    def load(cls, data: dict[str, Any] | None) -> Process | None:
        return cls(int(data["pid"]), float(data["created"])) if data else None

    def dump(self) -> dict[str, Any]:
        return self._asdict()

    @property
    def alive(self) -> bool:
        return self.handle() is not None

    def handle(self) -> psutil.Process | None:
        """None when it has ended, even if its pid is in use again or it waits to be reaped."""
        try:
            seen = psutil.Process(self.pid)
            same = abs(seen.create_time() - self.created) < _CLOCK_STEP_S
            return seen if same and seen.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

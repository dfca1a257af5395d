"""The sampler, started and stopped on this machine, and what it wrote."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

from ddops.host import sampler
from ddops.host.local import Local
from ddops.host.sampler import Orders


def free(path: Path) -> bool:
    with path.open("a") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def start(file: Path, **orders: Any) -> None:
    told: dict[str, Any] = {"pid": os.getpid(), "limit_s": 600, "powercap": "/nowhere", **orders}
    sampler.start(Local(), sys.executable, str(file), Orders(**told))


def stop(file: Path) -> list[dict[str, Any]]:
    text = sampler.stop(Local(), sys.executable, str(file))
    return [json.loads(line) for line in text.splitlines()]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

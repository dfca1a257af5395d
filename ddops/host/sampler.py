"""The sampler of a box, from here: started beside a service, stopped, and what it wrote fetched.

It writes on the box, so a connection that breaks in between loses nothing.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from ddops.errors import HostError
from ddops.host.base import Host
from ddops.spec.command import Run

INTERVAL_S: Final = 0.1
POWERCAP: Final = "/sys/class/powercap"
_SAMPLE: Final = Path(__file__).with_name("box_sample.py").read_text("utf-8")
_GPUS: Final = Path(__file__).with_name("box_gpus.py").read_text("utf-8")


@dataclass(frozen=True)
class Orders:
    pid: int  # of the service
    limit_s: float  # then it ends by itself
    lock: str | None = None  # a file: once nobody on the box has it open any more, it ends
    interval_s: float = INTERVAL_S
    powercap: str = POWERCAP
    token: str = field(default_factory=lambda: secrets.token_hex(8))  # no other's orders are these


def start(host: Host, python: str, file: str, orders: Orders) -> None:
    """Returns when the first sample is written. Raises `HostError` when there is none."""
    said = json.dumps({**asdict(orders), "gpus": _GPUS})
    _asked(host, (python, "-I", "-c", _SAMPLE, "start", file), "sample the box", said)


def stop(host: Host, python: str, file: str) -> str:
    """All samples, as text; nothing of them stays on the box. Raises `HostError`."""
    samples = _asked(host, (python, "-I", "-c", _SAMPLE, "stop", file), "fetch the samples")
    left = (str(Path(file).with_suffix(suffix)) for suffix in (".jsonl", ".stop", ".orders"))
    host.run(Run(argv=("rm", "-f", *left), why="leave nothing behind"))
    return samples


def _asked(host: Host, argv: tuple[str, ...], why: str, stdin: str | None = None) -> str:
    result = host.run(Run(argv=argv, why=why, stdin=stdin, timeout_s=60.0))
    if not result.ok:
        complaint = (result.stderr.strip().splitlines() or [f"exit code {result.code}"])[-1]
        raise HostError(f"the box `{host.name}` cannot be sampled: {complaint}")
    return result.stdout

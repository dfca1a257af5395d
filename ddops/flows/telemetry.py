"""Sample a box beside one cell, and lay the measured window over the samples.

Nothing here can fail a cell: what could not be sampled is told in its record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ddops.analysis.samples import parse
from ddops.analysis.telemetry import Expected, absent, telemetry
from ddops.errors import HostError
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.host import atomic, sampler
from ddops.host.base import Host
from ddops.host.sampler import Orders
from ddops.spec.command import Run
from ddops.spec.telemetry import Telemetry, Window

FOLDER: Final = "telemetry"
_SPARE_S: Final = 300.0  # between the phases of a cell, beyond their own limits
_ASKED: Final = 3
_CLOCK: Final = Run(argv=("date", "+%s.%N"), why="compare the clocks")


@dataclass(frozen=True)
class Clock:
    """Of the box against ours."""

    ahead_s: float  # its wall clock, of our monotonic one
    error_s: float


@dataclass
class Beside:
    """What was sampled beside a cell, once that has ended."""

    clock: Clock | None = None
    text: str | None = None
    why: str = "it was not stopped"  # there is no text

    def over(self, opened: float, length_s: float, expected: Expected) -> Telemetry:
        """`opened` is on our monotonic clock."""
        begun = parse(self.text) if self.text is not None else None
        if self.text is None or begun is None or self.clock is None:
            return absent(self.why)
        head = begun.head
        window = Window(
            opened=round(opened + self.clock.ahead_s - (head.wall - head.t), 4),
            length_s=length_s,
            clock_error_s=round(self.clock.error_s, 4),
        )
        return telemetry(self.text, window, expected)

    def keep(self, folder: Path, name: str) -> str | None:
        """Write the samples below `folder`, the run's; their path seen from there."""
        if self.text is None:
            return None
        path = f"{FOLDER}/{name}.jsonl"
        atomic.write(folder / path, self.text.encode())
        return path


@contextmanager
def sampled(site: Site, name: str, orders: Orders, voice: Voice) -> Iterator[Beside]:
    """Samples are taken for as long as the block runs; `Beside` is complete after it."""
    host, python = site.host, site.place.engine_python
    beside, file = Beside(), f"{site.place.home}/samples.jsonl"
    try:
        beside.clock = clock_of(host)
        sampler.start(host, python, file, orders)
    except HostError as error:
        beside.why = str(error)
        voice.warn(f"no power, no load of the box beside {name}: {error}")
        yield beside
        return
    try:
        yield beside
    finally:
        try:
            beside.text = sampler.stop(host, python, file)
        except HostError as error:
            beside.why = str(error)
            voice.warn(f"no power, no load of the box beside {name}: {error}")


def clock_of(host: Host) -> Clock:
    """The quickest of a few answers is the least uncertain. Raises `HostError` without any."""
    found = []
    for _ in range(_ASKED):
        asked = time.monotonic()
        said = host.run(_CLOCK).stdout
        answered = time.monotonic()
        with suppress(ValueError):
            ahead = float(said) - (asked + answered) / 2
            found.append(Clock(ahead_s=ahead, error_s=(answered - asked) / 2))
    if not found:
        raise HostError(f"box `{host.name}` does not tell the time: `{_CLOCK.line}`")
    return min(found, key=lambda clock: clock.error_s)


def orders_of(site: Site, pid: int, timeout_s: float) -> Orders:
    """`timeout_s` is that of the warm-up, and of the window."""
    return Orders(pid=pid, limit_s=2 * timeout_s + _SPARE_S, lock=site.place.lock)

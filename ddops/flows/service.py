"""The running service of a box: what is deployed, and how to put another deployment in its place.

`ddops bench` uses this to walk through a matrix and to leave the box as it found it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ddops.flows.voice import Voice
from ddops.host.base import Host
from ddops.spec.box import Box
from ddops.spec.deployment import Deployment
from ddops.spec.observed import Observed


@dataclass(frozen=True)
class Served:
    """A service that has passed its gate."""

    deployment: Deployment
    base_url: str  # without a path: `http://127.0.0.1:8421`
    api_key: str | None = field(repr=False)
    unit: str  # the rendered unit, as it lies on the box
    unit_sha256: str
    pid: int
    logs: Callable[[int], str] = field(repr=False)  # the last n lines


def current(host: Host, box: Box) -> Deployment | None:
    """What `ddops deploy` left on the box; None before the first. `switch` does not change it."""
    raise NotImplementedError


def switch(host: Host, box: Box, deployment: Deployment, *, voice: Voice | None = None) -> Served:
    """Render the unit of `deployment`, restart the service with it, wait for the gate.

    The weights must be on the box. Always restarts, so counters and caches begin at zero.
    `ServiceError` carries the verdict (exit code, what it means, the log's tail) as its detail.
    """
    raise NotImplementedError


def log_tail(host: Host, box: Box, lines: int = 50) -> str:
    """The last lines of the service's log; empty when there is none."""
    raise NotImplementedError


def facts_digest(observed: Observed) -> str:
    """sha256 of what makes two boxes the same for a measurement: system, Python, GPUs."""
    raise NotImplementedError

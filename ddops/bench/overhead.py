"""Was it the client that was slow? What a window says of the client itself, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ddops.bench.load import Window
from ddops.spec.record import Metrics, Spread

BUSY_CORES: Final = 0.8
"""Of one core. At 0.9 and above a process that shares its core reads chunks late; 0.5 left the
means of TTFT and TPOT within 1 % of what the server sent (`tests/ddops/bench/test_measure.py`)."""
LATE_SHARE: Final = 0.1  # of TPOT p50, or of the time between two requests
LATE_S: Final = 0.005  # what a busy kernel alone takes to wake a process; less says nothing


def warnings(window: Window, metrics: Metrics) -> tuple[str, ...]:
    """What makes these numbers the client's as much as the service's."""
    return tuple(_found(window, metrics))


def _found(window: Window, metrics: Metrics) -> Iterator[str]:
    if window.client_cores > BUSY_CORES:
        yield (
            f"the client may be the bottleneck: a process of it used {window.client_cores:.2f} "
            f"of a core"
        )
    lag, pace = window.client_lag_s, metrics.tpot_s.p50 if metrics.tpot_s else None
    if lag and pace and (late := _late(lag, pace)):
        yield (
            f"the client wakes {1000 * late:.0f} ms late (p90), at {1000 * pace:.0f} ms a token: "
            "single times are that uncertain"
        )
    behind = metrics.sent_late_s
    if behind and metrics.requests_s and (late := _late(behind, 1 / metrics.requests_s)):
        yield f"requests were sent {1000 * late:.0f} ms late (p90): the asked rate was not kept"


def _late(lag: Spread, pace: float) -> float | None:
    """`lag.p90` where it is more than it may be beside `pace`"""
    return lag.p90 if lag.p90 > max(LATE_S, LATE_SHARE * pace) else None

"""One cell on a running service: warm up, counters, window, counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddops.bench import crew
from ddops.bench.client import Question, Target
from ddops.bench.counters import scrape
from ddops.bench.load import Window
from ddops.host.reply import Service

_COUNTED_WITHIN_S = 10.0


@dataclass(frozen=True)
class Work:
    """What one cell asks of the service."""

    warm_up: Sequence[Question]
    questions: Sequence[Question]
    concurrency: int  # 0: an open loop, each question has its time
    timeout_s: float
    processes: int | None = None  # of the client; None: as many as `concurrency` takes


@dataclass(frozen=True)
class Measured:
    window: Window
    counters_before: dict[str, float]
    counters_after: dict[str, float]


def measure(target: Target, work: Work, answered: Callable[[], None]) -> Measured:
    """`answered` is called once for every request that ended, warm-up included."""
    service = Service(target.url, target.api_key, _COUNTED_WITHIN_S)
    with crew.crew(target, work.processes or crew.processes(work.concurrency)) as hands:
        together = max(1, work.concurrency)
        warmed = hands.run(crew.whole(work.warm_up, together, work.timeout_s), answered)
        if warmed.lost or warmed.timed_out:
            return Measured(warmed, {}, {})
        before = scrape(service)
        window = hands.run(crew.whole(work.questions, work.concurrency, work.timeout_s), answered)
        after = scrape(service)
    return Measured(window, before, after)

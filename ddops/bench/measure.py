"""One cell on a running service: warm up, counters, window, counters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddops.bench.client import Question, Target, connected
from ddops.bench.counters import scrape
from ddops.bench.load import Loop, Window


@dataclass(frozen=True)
class Work:
    """What one cell asks of the service."""

    warm_up: Sequence[Question]
    questions: Sequence[Question]
    concurrency: int
    timeout_s: float


@dataclass(frozen=True)
class Measured:
    window: Window
    counters_before: dict[str, float]
    counters_after: dict[str, float]


def measure(target: Target, work: Work, answered: Callable[[], None]) -> Measured:
    """`answered` is called once for every request that ended, warm-up included."""
    return asyncio.run(_measure(target, work, answered))


async def _measure(target: Target, work: Work, answered: Callable[[], None]) -> Measured:
    async with connected(target, work.concurrency) as clients:
        loop = Loop(target, clients, work.timeout_s)
        warmed = await loop.run(work.warm_up, lambda _: answered())
        if warmed.lost or warmed.timed_out:
            return Measured(warmed, {}, {})
        before = await scrape(clients[0])
        window = await loop.run(work.questions, lambda _: answered())
        after = await scrape(clients[0])
    return Measured(window, before, after)

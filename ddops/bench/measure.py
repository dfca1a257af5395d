"""One cell on a running service: warm up, counters, window, counters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ddops.bench.client import Question, Target, connected
from ddops.bench.counters import scrape
from ddops.bench.load import Loop, Window
from ddops.spec.record import EngineSeen

_LOOK_TIMEOUT_S = 5.0


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


def engine_seen(target: Target) -> EngineSeen | None:
    """What `/server_info` says; None when the service does not answer or has no such page."""
    info = _look(target, "/server_info")
    if info is None:
        return None
    return EngineSeen(
        name=str(info.get("engine", "unknown")),
        version=str(info.get("version", "unknown")),
        argv=tuple(map(str, info.get("argv", ()))),
        info=info,
    )


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


def _look(target: Target, path: str) -> dict[str, Any] | None:
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    try:
        with httpx.Client(trust_env=False, timeout=_LOOK_TIMEOUT_S, headers=headers) as client:
            response = client.get(target.url + path)
        found = response.json() if response.is_success else None
    except (httpx.TransportError, ValueError):
        return None
    return found if isinstance(found, dict) else None

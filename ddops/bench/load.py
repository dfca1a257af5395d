"""A closed loop: C workers, each takes the next question when its answer has ended.

The window opens when the first request is sent and closes when the last token arrives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import httpx

from ddops.bench.client import Question, Target, ask
from ddops.bench.metrics import spread
from ddops.bench.stream import Transcript
from ddops.spec.record import Spread, Trace

GRACE_S = 2.0  # how long requests in flight may go on once a connection broke
_LAG_PERIOD_S = 0.02


@dataclass(frozen=True)
class Window:
    traces: tuple[Trace, ...]
    texts: tuple[str, ...]  # of the same requests; they leave the memory with this value
    opened: float  # on this machine's monotonic clock
    length_s: float
    client_lag_s: Spread | None
    lost: bool  # a connection broke
    timed_out: bool


@dataclass(frozen=True)
class Loop:
    """A closed loop against one service, with one worker for each client."""

    target: Target
    clients: tuple[httpx.AsyncClient, ...]
    timeout_s: float

    async def run(
        self, questions: Sequence[Question], answered: Callable[[Transcript], None]
    ) -> Window:
        """Ask all questions; end early when a connection breaks or the time is over."""
        going = _Going(self.target, iter(questions), answered)
        lags: list[float] = []
        clock = asyncio.create_task(_watch_own_loop(lags))
        workers = [asyncio.create_task(going.work(client)) for client in self.clients]
        try:
            timed_out = await _finished_late(workers, going.lost, self.timeout_s)
        finally:
            await _cancel([clock, *workers])
        return _window(going.heard, lags, lost=going.lost.is_set(), timed_out=timed_out)


@dataclass
class _Going:
    """What the workers of one run share."""

    target: Target
    waiting: Iterator[Question]
    answered: Callable[[Transcript], None]
    heard: list[Transcript] = field(default_factory=list)
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, client: httpx.AsyncClient) -> None:
        for question in self.waiting:
            transcript = Transcript(question.prompt)
            self.heard.append(transcript)
            await ask(client, self.target, question, transcript)
            self.answered(transcript)
            if transcript.lost:
                self.lost.set()
            if self.lost.is_set():
                return


async def _finished_late(
    workers: Sequence[asyncio.Task[None]], lost: asyncio.Event, timeout_s: float
) -> bool:
    """Wait for the workers; True when the time was over before they were."""
    everyone = asyncio.create_task(_all(workers))
    broken = asyncio.create_task(_broken_for(lost, GRACE_S))
    try:
        done, _ = await asyncio.wait(
            (everyone, broken), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if everyone in done:
            everyone.result()
    finally:
        await _cancel([broken, everyone])
    return not done


async def _all(workers: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*workers)


async def _broken_for(lost: asyncio.Event, seconds: float) -> None:
    await lost.wait()
    await asyncio.sleep(seconds)


async def _watch_own_loop(lags: list[float]) -> None:
    """How late this client's event loop wakes up: the error bar of every time it stamps."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(_LAG_PERIOD_S)
        lags.append(max(0.0, time.monotonic() - before - _LAG_PERIOD_S))


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _window(
    heard: Sequence[Transcript], lags: Sequence[float], *, lost: bool, timed_out: bool
) -> Window:
    for transcript in heard:
        if transcript.ended is None:
            transcript.fail("unfinished when the cell ended")
    opened = min((t.sent for t in heard if t.sent is not None), default=0.0)
    traces = tuple(transcript.trace(opened) for transcript in heard)
    return Window(
        traces=traces,
        texts=tuple(transcript.text for transcript in heard),
        opened=opened,
        length_s=max((t.sent + t.last for t in traces if t.last is not None), default=0.0),
        client_lag_s=spread(lags),
        lost=lost,
        timed_out=timed_out,
    )

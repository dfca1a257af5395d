"""Requests on their way: C at once, each after an answer (closed), or each at its time (open).

The window opens when the first request is sent, or was due, and closes when the last token
arrives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field

from ddops.bench.client import Clients, Question, Target, ask
from ddops.bench.metrics import spread
from ddops.bench.stream import Transcript
from ddops.spec.record import Spread, Trace

GRACE_S = 2.0  # how long requests in flight may go on once a connection broke
_LAG_PERIOD_S = 0.02


@dataclass(frozen=True)
class Share:
    """What one process of the client has to ask."""

    questions: Sequence[Question]
    workers: int  # of a closed loop; 0: an open one, every question has its time
    opens: float  # on the monotonic clock, which all processes share
    timeout_s: float


@dataclass(frozen=True)
class Heard:
    """What one process of the client heard."""

    transcripts: tuple[Transcript, ...]
    lags: tuple[float, ...]
    cores: float  # CPU seconds a second
    lost: bool  # a connection broke
    timed_out: bool


@dataclass(frozen=True)
class Window:
    traces: tuple[Trace, ...]
    texts: tuple[str, ...]  # of the same requests; they leave the memory with this value
    opened: float  # on the monotonic clock
    length_s: float
    client_lag_s: Spread | None
    client_cores: float  # of the busiest process
    client_processes: int
    lost: bool
    timed_out: bool


async def hear(
    target: Target,
    clients: Clients,
    share: Share,
    turns: Iterator[int],
    answered: Callable[[], None],
) -> Heard:
    """Ask all of `share`; end early when a connection breaks or the time is over.

    `turns` are the places of the questions that a closed loop still has to ask; several processes
    may take from it.
    """
    going = _Going(target, clients, share, turns, answered)
    lags: list[float] = []
    began, spent = time.monotonic(), time.process_time()
    clock = asyncio.create_task(_watch_own_loop(lags))
    asking = [asyncio.create_task(work) for work in going.works()]
    try:
        timed_out = await _finished_late(asking, going.lost, share.timeout_s)
    finally:
        await _cancel([clock, *asking])
    return Heard(
        transcripts=tuple(going.heard),
        lags=tuple(lags),
        cores=(time.process_time() - spent) / (time.monotonic() - began),
        lost=going.lost.is_set(),
        timed_out=timed_out,
    )


def window(parts: Sequence[Heard]) -> Window:
    """One window of what all processes heard, in the order of sending."""
    heard = [transcript for part in parts for transcript in part.transcripts]
    for transcript in heard:
        if transcript.ended is None:
            transcript.fail("unfinished when the cell ended")
    moments = [t.sent if t.due is None else t.due for t in heard]
    opened = min((moment for moment in moments if moment is not None), default=0.0)
    heard.sort(key=lambda transcript: opened if transcript.sent is None else transcript.sent)
    traces = tuple(transcript.trace(opened) for transcript in heard)
    return Window(
        traces=traces,
        texts=tuple(transcript.text for transcript in heard),
        opened=opened,
        length_s=max((t.sent + t.last for t in traces if t.last is not None), default=0.0),
        client_lag_s=spread([lag for part in parts for lag in part.lags]),
        client_cores=max((part.cores for part in parts), default=0.0),
        client_processes=len(parts),
        lost=any(part.lost for part in parts),
        timed_out=any(part.timed_out for part in parts),
    )


@dataclass
class _Going:
    """What the requests of one process share."""

    target: Target
    clients: Clients
    share: Share
    turns: Iterator[int]
    answered: Callable[[], None]
    heard: list[Transcript] = field(default_factory=list)
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    def works(self) -> Iterator[Coroutine[None, None, None]]:
        if not self.share.workers:
            yield self._at_their_times()
        for _ in range(self.share.workers):
            yield self._one_after_another()

    async def _one_after_another(self) -> None:
        for turn in self.turns:
            await self._ask(self.share.questions[turn], None)
            if self.lost.is_set():
                return

    async def _at_their_times(self) -> None:
        """A request waits for no other: a service that falls behind is not spared."""
        async with asyncio.TaskGroup() as sent:
            for question in sorted(self.share.questions, key=lambda question: question.due_s):
                due = self.share.opens + question.due_s
                await asyncio.sleep(due - time.monotonic())
                if self.lost.is_set():
                    return
                sent.create_task(self._ask(question, due))

    async def _ask(self, question: Question, due: float | None) -> None:
        transcript = Transcript(question.prompt, due)
        self.heard.append(transcript)
        await ask(self.clients, self.target, question, transcript)
        self.answered()
        if transcript.lost:
            self.lost.set()


async def _finished_late(
    asking: Sequence[asyncio.Task[None]], lost: asyncio.Event, timeout_s: float
) -> bool:
    """Wait for all that is asked; True when the time was over before."""
    everyone = asyncio.create_task(_all(asking))
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


async def _all(asking: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*asking)


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

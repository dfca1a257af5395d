"""The client's own processes: this one alone, or several where one core is not enough.

In a closed loop the processes take their questions from one count, so that each worker takes the
next question whichever process it is in; in an open loop every question has its time, and each
process its share of them.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.sharedctypes import Synchronized
from typing import Protocol

from ddops.bench.client import Clients, Question, Target
from ddops.bench.load import Heard, Share, Window, hear, window
from ddops.errors import BenchError

PER_PROCESS = 32
"""Requests in flight that one process keeps up with: a chunk takes 20 us of it, so at 800 chunks a
second each half a core. Who sends fewer loses nothing: processes are forked in milliseconds."""

_LEAD_S = 0.05  # from the call to the first request of an open loop


class Crew(Protocol):
    def run(self, share: Share, answered: Callable[[], None]) -> Window: ...


def whole(questions: Sequence[Question], workers: int, timeout_s: float) -> Share:
    """All there is to ask, from now on: `workers` at once or, when 0, each at its time."""
    return Share(questions, workers, time.monotonic() + _LEAD_S, timeout_s)


def processes(concurrency: int) -> int:
    """As few as keep up with `concurrency`; half of the cores are left to the service."""
    cores = os.cpu_count() or 1
    return max(1, min(-(-concurrency // PER_PROCESS), cores // 2))


@contextmanager
def crew(target: Target, count: int) -> Iterator[Crew]:
    """`count` processes, with connections that stay open from one run to the next."""
    if count == 1:
        with asyncio.Runner() as runner:
            alone = _Alone(target, runner, Clients(target))
            gc.freeze()  # else full collections look at all that is there: 50 ms without a stamp
            try:
                yield alone
            finally:
                gc.unfreeze()
                runner.run(alone.clients.close())
    else:
        with _several(target, count) as several:
            yield several


@dataclass(frozen=True)
class _Alone:
    target: Target
    runner: asyncio.Runner
    clients: Clients

    def run(self, share: Share, answered: Callable[[], None]) -> Window:
        turns = iter(range(len(share.questions)))
        return window([self.runner.run(hear(self.target, self.clients, share, turns, answered))])


@dataclass(frozen=True)
class _Several:
    pipes: tuple[Connection, ...]
    taken: Synchronized[int]

    def run(self, share: Share, answered: Callable[[], None]) -> Window:
        self.taken.value = 0
        count = len(self.pipes)
        for place, pipe in enumerate(self.pipes):
            if share.workers:
                part = replace(share, workers=(share.workers + place) // count)
            else:
                part = replace(share, questions=share.questions[place::count])
            pipe.send(part)
        return window(_gathered(self.pipes, answered))


def _gathered(pipes: Sequence[Connection], answered: Callable[[], None]) -> list[Heard]:
    """Every process says None for each answer, and at the end all that it heard."""
    waiting, parts = list(pipes), []
    while waiting:
        for pipe in wait(waiting):
            assert isinstance(pipe, Connection), "only pipes were waited for"
            try:
                said = pipe.recv()
            except (EOFError, ConnectionError):
                raise BenchError(
                    "a process of the load client died", hint="run the same command again"
                ) from None
            if said is None:
                answered()
            else:
                parts.append(said)
                waiting.remove(pipe)
    return parts


@contextmanager
def _several(target: Target, count: int) -> Iterator[_Several]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *_loaded()])  # a second for each, else
    taken = context.Value("q", 0)
    started = [_start(context, target, taken) for _ in range(count)]
    try:
        yield _Several(tuple(pipe for _, pipe in started), taken)
    finally:
        for _, pipe in started:
            pipe.close()
        for process, _ in started:
            process.terminate()
            process.join()


def _loaded() -> list[str]:
    """What a process imports with the program it belongs to."""
    return [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]


def _start(
    context: ForkServerContext, target: Target, taken: Synchronized[int]
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, target, taken), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _work(pipe: Connection, target: Target, taken: Synchronized[int]) -> None:
    """One process: shares come in, what was heard goes out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process' to judge
    clients = Clients(target)
    gc.freeze()
    with asyncio.Runner() as runner:
        while (share := _next(pipe)) is not None:
            turns = _turns(taken, len(share.questions))
            pipe.send(runner.run(hear(target, clients, share, turns, lambda: pipe.send(None))))
        runner.run(clients.close())


def _next(pipe: Connection) -> Share | None:
    try:
        share: Share = pipe.recv()
    except EOFError:
        return None
    return share


def _turns(taken: Synchronized[int], count: int) -> Iterator[int]:
    while True:
        with taken.get_lock():
            turn = taken.value
            taken.value = turn + 1
        if turn >= count:
            return
        yield turn

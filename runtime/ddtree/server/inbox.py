"""From the engine's thread to the event loop, without either ever waiting for the other.

The engine drops outputs into one queue and wakes the loop once a step: a loop that woke at the
first of them would take turns with the engine for every one that follows. Streams are written
while it sorts them: to wake a task for each would cost more than to write it. A reader that is
slow finds its outputs merged into one: what waits for it is at most the tokens of its own answer,
which the context bounds.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ddtree.core.sequence import Finish, Output, Speculation, TokenLogprob


@dataclass
class Arrival:
    """What came for one choice since it was last looked at."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: Finish | None = None
    error: str | None = None
    speculation: Speculation | None = None  # totals so far
    reused: int = 0  # prompt tokens that were in the cache already

    def add(self, output: Output) -> None:
        self.tokens += output.tokens
        self.logprobs += output.logprobs or ()
        self.finish = output.finish or self.finish
        self.error = output.error or self.error
        self.speculation = output.speculation or self.speculation
        self.reused = output.reused or self.reused


class Inbox:
    """Where the outputs of one HTTP request wait, by choice index. Lives on the loop.

    Its reader waits for them (`take`), or hangs up a bell, which rings once for all that came.
    """

    def __init__(self, on_output: Callable[[int, Output, float], None] | None = None) -> None:
        self.bell: Callable[[], None] = _nobody
        self._on_output = on_output  # index, output, monotonic time the engine sent it
        self._waiting: dict[int, Arrival] = {}
        self._filled = asyncio.Event()
        self._error: Exception | None = None

    def put(self, index: int, output: Output, at: float) -> None:
        if self._on_output is not None:
            self._on_output(index, output, at)
        self._waiting.setdefault(index, Arrival()).add(output)
        self._filled.set()

    def fail(self, error: Exception) -> None:
        """Nothing more will come, for this reason."""
        self._error = error
        self._filled.set()
        self.bell()

    async def take(self) -> dict[int, Arrival]:
        """Everything that waits; returns at the first that comes, or raises what failed."""
        await self._filled.wait()
        return self.taken()

    def taken(self) -> dict[int, Arrival]:
        """What waits already, or nothing; raises what failed."""
        self._filled.clear()
        if self._error is not None:
            raise self._error
        taken, self._waiting = self._waiting, {}
        return taken


class Postbox:
    """The one way out of the engine's thread.

    Sorting, and the writing that comes of it, takes at most half of the time, so that the engine
    finds the interpreter free: where steps are quicker than that, several go out as one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[tuple[Inbox, int, Output, float]] = deque()
        self._woken = False
        self._rests_until = 0.0  # monotonic

    def to(self, inbox: Inbox, index: int) -> Callable[[Output], None]:
        """The callback to hand to the engine."""

        def post(output: Output) -> None:
            self._queue.append((inbox, index, output, time.monotonic()))

        return post

    def wake(self) -> None:
        """What was posted is to be read."""
        if self._woken or not self._queue:
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._sort)
        except RuntimeError:  # the loop is closed: nobody is left to hear it
            self._queue.clear()

    def _sort(self) -> None:
        began, spent = time.monotonic(), time.thread_time()
        if began < self._rests_until:
            self._loop.call_later(self._rests_until - began, self._sort)
            return
        # Before the queue is read: what is posted from here on wakes the loop again.
        self._woken = False
        filled: dict[Inbox, None] = {}
        while self._queue:
            inbox, index, output, at = self._queue.popleft()
            inbox.put(index, output, at)
            filled[inbox] = None
        for inbox in filled:
            inbox.bell()
        self._rests_until = began + 2 * (time.thread_time() - spent)


def _nobody() -> None:
    """Nobody wants to hear it."""

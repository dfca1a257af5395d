"""Where what the engine says to a request waits for whoever writes it down.

Streams are written while a step is sorted: to wake a task for each would cost more than to write
it. A reader that is slow finds its outputs merged into one: what waits for it is at most the
tokens of its own answer, which the context bounds.
"""

from __future__ import annotations

import asyncio
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
        waiting = self._waiting.get(index)
        if waiting is None:  # else it is filled already
            waiting = self._waiting[index] = Arrival()
            self._filled.set()
        waiting.add(output)

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


def _nobody() -> None:
    """Nobody wants to hear it."""

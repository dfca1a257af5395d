"""From an exchange to its client, within the bell's ring: no task is woken for what a step brought.

Only a write that a slow reader holds up is waited for; what comes meanwhile is one piece after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Protocol

from starlette.types import Send


class Heard(Protocol):
    """An exchange."""

    @property
    def over(self) -> bool: ...

    def listen(self, bell: Callable[[], None]) -> None: ...


class Outlet:
    """`events` are those of all that the exchange heard since the last time."""

    def __init__(self, exchange: Heard, events: Callable[[], bytes], send: Send) -> None:
        self._exchange, self._events, self._send = exchange, events, send
        self._turn: asyncio.Future[_HeldUp | None]

    async def run(self) -> None:
        """Until the answer is over. Raises what the exchange failed with."""
        try:
            while True:
                self._turn = asyncio.get_running_loop().create_future()
                self._exchange.listen(self._write)
                held_up = await self._turn
                if held_up is None:
                    return
                await held_up
        finally:
            self._exchange.listen(_nobody)

    def _write(self) -> None:
        if self._turn.done():  # held up, or over
            return
        try:
            data = self._events()
            held_up = self._begin(data) if data else None
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._turn.set_exception(error)
            return
        if held_up is not None:
            self._turn.set_result(held_up)
        elif self._exchange.over:
            self._turn.set_result(None)

    def _begin(self, data: bytes) -> _HeldUp | None:
        """Send as far as it goes without waiting; None when that was all."""
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        steps = sending.__await__()
        try:
            return _HeldUp(next(steps), steps)
        except StopIteration:
            return None


class _HeldUp:
    """A write that waits for its reader, as something to await: it has begun outside of a task."""

    def __init__(self, first: object, rest: Generator[Any, Any, None]) -> None:
        self._first, self._rest = first, rest

    def __await__(self) -> Generator[Any, Any, None]:
        yield self._first
        yield from self._rest


def _nobody() -> None:
    """The client is gone, or has all it wanted."""

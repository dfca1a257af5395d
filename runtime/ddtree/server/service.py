"""What the server knows: how far it has come, the model it has, and the requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from ddtree.server.errors import ApiError, engine_failed, unavailable
from ddtree.server.metrics import Metrics
from ddtree.server.seam import Loaded, StatsLike

Status = Literal["loading", "warming", "ready", "draining", "failed"]


@dataclass(frozen=True)
class Identity:
    """What a client is told about this process."""

    served_model_name: str
    argv: tuple[str, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Service:
    """Lives on the event loop."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.status: Status = "loading"
        self.loaded: Loaded | None = None
        self.metrics = Metrics(lambda: self._seen)
        self._seen: StatsLike | None = None
        self._in_flight: set[Callable[[ApiError], None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def use(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.status = "warming"

    def ready(self) -> Loaded:
        """The model, if a request may be taken now."""
        if self.loaded is None or self.status != "ready":
            raise unavailable(self.status)
        if self.loaded.engine.failure is not None:
            raise engine_failed(self.loaded.engine.failure)
        return self.loaded

    def enter(self, fail: Callable[[ApiError], None]) -> None:
        """A request begins. `fail` ends it from outside."""
        self._in_flight.add(fail)
        self._idle.clear()

    def leave(self, fail: Callable[[ApiError], None]) -> None:
        self._in_flight.discard(fail)
        if not self._in_flight:
            self._idle.set()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    async def idle(self) -> None:
        await self._idle.wait()

    def fail_all(self, error: ApiError) -> None:
        for fail in tuple(self._in_flight):
            fail(error)

    async def look(self) -> StatsLike | None:
        """The engine's counters, which `metrics` then tells; None while there is no engine."""
        if self.loaded is not None:
            self._seen = await self.loaded.engine.stats()
        return self._seen

    async def death(self) -> str | None:
        """Returns when the engine has died, with its reason; nobody waits for it in vain."""
        assert self.loaded is not None, "there is no engine to watch yet"
        await self.loaded.engine.ended()
        self.status = "failed"
        failure = self.loaded.engine.failure
        self.fail_all(engine_failed(failure))
        return failure

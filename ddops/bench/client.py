"""One streamed request to an OpenAI-compatible service, over HTTP/1.1 with keep-alive.

It only moves bytes and looks at the clock; `stream.Transcript` says what they mean.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ddops.bench.stream import Transcript
from ddops.bench.wire import Wire, WireError

_OK = 200


@dataclass(frozen=True)
class Target:
    """Where the service listens, and the name of its model."""

    url: str  # http://host:port
    model: str
    api_key: str | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key is not None else {}


@dataclass(frozen=True)
class Question:
    prompt: str  # id in its set
    text: str
    max_tokens: int
    temperature: float
    seed: int
    due_s: float = 0.0  # in an open loop: after its window has opened


class Clients:
    """Connections to one service, opened as they are needed: one for each request in flight."""

    def __init__(self, target: Target) -> None:
        self._target = target
        secure = target.url.startswith("https:")
        self._tls = ssl.create_default_context() if secure else None
        self._idle: list[Wire] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Wire]:
        """The one that was used last, so that as few as possible are open. Raises WireError."""
        while self._idle:
            wire = self._idle.pop()
            if wire.open:
                break
        else:
            headers = {"Content-Type": "application/json", **self._target.headers}
            wire = Wire(self._target.url, headers)
            await wire.connect(self._tls)
        try:
            yield wire
        finally:
            self._idle.append(wire)

    async def close(self) -> None:
        for wire in self._idle:
            wire.close()


async def ask(clients: Clients, target: Target, question: Question, heard: Transcript) -> None:
    """Send `question` and fill `heard` until the answer ends. Errors end up in `heard`."""
    said = list[bytes]()  # instead of an answer

    def sent() -> None:
        # Connecting and this client's own queueing are not the service's time.
        heard.sent = time.monotonic()

    def hear(data: bytes, at: float) -> None:
        (heard.feed if wire.status == _OK else refuse)(data, at)

    def refuse(data: bytes, _: float) -> None:
        said.append(data)

    try:
        async with clients.one() as wire:
            status = await wire.post("/v1/chat/completions", _body(target, question), hear, sent)
        if status != _OK:
            heard.fail(f"HTTP {status}: {b''.join(said).decode(errors='replace')[:300]}")
    except WireError as broken:
        heard.fail(f"connection lost: {broken}", lost=True)
    heard.end(time.monotonic())


def _body(target: Target, question: Question) -> bytes:
    return json.dumps(
        {
            "model": target.model,
            "messages": [{"role": "user", "content": question.text}],
            "max_tokens": question.max_tokens,
            "temperature": question.temperature,
            "seed": question.seed,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
    ).encode()

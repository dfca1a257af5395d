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
from typing import Any

import httpx

from ddops.bench.stream import Transcript

CONNECT_TIMEOUT_S = 10.0


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
    """Connections to one service, opened as they are needed: one for each request in flight.

    A client of httpx each, for a shared pool looks through all its connections at every request:
    at 256 of them that cost 16 s of client CPU for 512 requests and moved TPOT by 7 %; apart they
    cost a fifth.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._tls = httpx.create_ssl_context()
        self._all: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """The one that was used last, so that as few as possible are open."""
        if self._idle:
            client = self._idle.pop()
        else:
            client = _client(self._target, self._tls)
            self._all.append(client)
        try:
            yield client
        finally:
            self._idle.append(client)

    async def close(self) -> None:
        for client in self._all:
            await client.aclose()


def _client(target: Target, tls: ssl.SSLContext) -> httpx.AsyncClient:
    """Without time limits or proxies of its own: what it measures is the service."""
    return httpx.AsyncClient(
        base_url=target.url,
        headers={"Accept-Encoding": "identity", **target.headers},
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        verify=tls,
        trust_env=False,
    )


async def ask(
    client: httpx.AsyncClient, target: Target, question: Question, heard: Transcript
) -> None:
    """Send `question` and fill `heard` until the answer ends. Errors end up in `heard`."""

    async def note(event: str, _: dict[str, Any]) -> None:
        # The body is handed to the socket right after this event: connecting and this client's own
        # queueing are not the service's time. At 256 requests in one burst the start of the
        # headers comes 30 ms too early, the end of the body 47 ms too late.
        if event == "http11.send_request_body.started":
            heard.sent = time.monotonic()

    request = client.build_request(
        "POST",
        "/v1/chat/completions",
        content=_body(target, question),
        headers={"Content-Type": "application/json"},
        extensions={"trace": note},
    )
    try:
        response = await client.send(request, stream=True)
        try:
            await _listen(response, heard)
        finally:
            await response.aclose()
    except httpx.TransportError as broken:
        heard.fail(f"connection lost: {str(broken) or type(broken).__name__}", lost=True)
    heard.end(time.monotonic())


async def _listen(response: httpx.Response, heard: Transcript) -> None:
    if response.status_code != httpx.codes.OK:
        said = (await response.aread()).decode(errors="replace")
        heard.fail(f"HTTP {response.status_code}: {said[:300]}")
        return
    async for data in response.aiter_raw():
        heard.feed(data, time.monotonic())


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

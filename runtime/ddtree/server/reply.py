"""The two ways to answer, whole or streamed, both of which notice that the client has left.

ASGI responses of our own: Starlette's look for a disconnect only while they stream, and a client
that stopped waiting for a whole answer must free its pages too.
"""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from ddtree.server import answer
from ddtree.server.answer import Json
from ddtree.server.choice import Piece
from ddtree.server.chunks import DONE, Chunks, event
from ddtree.server.errors import ApiError
from ddtree.server.exchange import Exchange
from ddtree.server.outlet import Outlet

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # or a proxy would hold the chunks back
]


class Reply(Response):
    """Works until it is done or the client is gone; then the exchange is closed, come what may."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self.exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.ensure_future(self.work(scope, receive, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            gone.cancel()
            self.exchange.close()

    async def work(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class Whole(Reply):
    async def work(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response
        try:
            response = JSONResponse(await self._body())
        except ApiError as error:
            response = error.response()
        await response(scope, receive, send)

    async def _body(self) -> Json:
        ask = self.exchange.ask
        said: list[list[Piece]] = [[] for _ in ask.requests]
        while not self.exchange.over:
            for index, piece in await self.exchange.wait():
                said[index].append(piece)
        return {
            **answer.head(ask, chunk=False),
            "choices": [answer.whole_choice(ask, index, parts) for index, parts in enumerate(said)],
            "usage": answer.final_usage(self.exchange.counts()),
        }


class Stream(Reply):
    """One chunk for each choice and engine step; several steps in one if the client is slow."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._chunks = Chunks(exchange.ask)
        self._opened: set[int] = set()

    async def work(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        last = b""
        try:
            await Outlet(self.exchange, self._events, send).run()
            if self.exchange.ask.include_usage:
                last = self._chunks.usage(self.exchange.counts()).encode()
        except ApiError as error:
            last = event(error.body)
        await send({"type": "http.response.body", "body": last + DONE})

    def _events(self) -> bytes:
        """Those of all that came since the last time."""
        pieces = self.exchange.pieces()
        tokens = self.exchange.completion_tokens
        events: list[str] = []
        for index, piece in pieces:
            if self.exchange.ask.chat and index not in self._opened:
                self._opened.add(index)
                events.append(self._chunks.opening(index, tokens))
            if self._worth_sending(piece):
                events.append(self._chunks.piece(index, piece, tokens))
        return "".join(events).encode()

    def _worth_sending(self, piece: Piece) -> bool:
        """An empty chunk still tells a client that counts how many tokens there are."""
        said = piece.text or piece.thought or piece.calls
        return bool(said or piece.finish or piece.logprobs or self.exchange.ask.running_usage)


async def _gone(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass

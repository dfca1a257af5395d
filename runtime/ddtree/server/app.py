"""The routes. Each parses, asks, and hands the answer to a reply."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ddtree.server import info, intake
from ddtree.server.errors import ApiError, unauthorized, unknown_model
from ddtree.server.exchange import Exchange
from ddtree.server.intake import Ask
from ddtree.server.protocol import ChatBody, CompletionBody, parse
from ddtree.server.reply import Stream, Whole
from ddtree.server.seam import Loaded
from ddtree.server.service import Service

MAX_BODY_BYTES = 8 * 1024 * 1024
# A longer text is tokenised on a thread: on the loop it would hold up every stream (about 5 ms).
LONG_BODY_BYTES = 20_000


def build(service: Service) -> Starlette:
    app = Starlette(
        routes=_ROUTES,
        middleware=[Middleware(Gate, api_key=service.identity.api_key)],
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _http_error,
            Exception: _server_error,
        },
    )
    app.state.service = service
    return app


class Gate:
    """Everything under /v1/ needs the API key, where there is one."""

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._wanted = None if api_key is None else f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._wanted is not None and scope["type"] == "http" and scope["path"].startswith("/v1"):
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                await unauthorized().response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    status = _service(request).status
    return JSONResponse({"status": status}, 200 if status == "ready" else 503)


async def metrics(request: Request) -> Response:
    service = _service(request)
    await service.look()
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def server_info(request: Request) -> Response:
    return JSONResponse(await info.server_info(_service(request)))


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [info.model_card(_service(request))]})


async def model(request: Request) -> Response:
    service = _service(request)
    _check_model(request.path_params["name"], service)
    return JSONResponse(info.model_card(service))


async def completions(request: Request) -> Response:
    def read(data: bytes, loaded: Loaded) -> Ask:
        body = parse(data, CompletionBody)
        _check_model(body.model, _service(request))
        return intake.completion(body, loaded)

    return await _answer(request, read)


async def chat(request: Request) -> Response:
    def read(data: bytes, loaded: Loaded) -> Ask:
        body = parse(data, ChatBody)
        _check_model(body.model, _service(request))
        return intake.chat(body, loaded)

    return await _answer(request, read)


_ROUTES = [
    Route("/v1/chat/completions", chat, methods=["POST"]),
    Route("/v1/completions", completions, methods=["POST"]),
    Route("/health", health),
    Route("/ready", ready),
    Route("/metrics", metrics),
    Route("/server_info", server_info),
    Route("/v1/models", models),
    Route("/v1/models/{name:path}", model),
]


async def _answer(request: Request, read: Callable[[bytes, Loaded], Ask]) -> Response:
    started = time.monotonic()
    service = _service(request)
    loaded = service.ready()
    data = await _bytes(request)
    if len(data) > LONG_BODY_BYTES:
        ask = await asyncio.to_thread(read, data, loaded)
        service.ready()  # it may have begun to drain meanwhile
    else:
        ask = read(data, loaded)
    exchange = Exchange(service, loaded, ask, started)
    exchange.open()
    return Stream(exchange) if ask.stream else Whole(exchange)


async def _bytes(request: Request) -> bytes:
    """The body. One that is too large is read to its end, or the client would not see why."""
    size = 0
    parts: list[bytes] = []
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
        elif size > 8 * MAX_BODY_BYTES:
            break
    if size > MAX_BODY_BYTES:
        raise ApiError(
            413, f"the body is larger than {MAX_BODY_BYTES} bytes", code="body_too_large"
        )
    return b"".join(parts)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _check_model(asked: str, service: Service) -> None:
    served = service.identity.served_model_name
    if asked != served:
        raise unknown_model(asked, served)


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError), "registered for ApiError alone"
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    """No such route, or not this method."""
    assert isinstance(error, HTTPException), "registered for HTTPException alone"
    said = f"{error.detail}: {request.method} {request.url.path}"
    return ApiError(error.status_code, said, headers=error.headers).response()


async def _server_error(_: Request, error: Exception) -> Response:
    """A fault of ours. The web server logs the traceback; the client learns only its kind."""
    return ApiError(500, f"internal error: {type(error).__name__}", code="internal").response()

"""The life of the process: load, warm up, serve, drain. The web server is uvicorn.

It serves from the first moment on: `/health` answers while the weights are read.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import uvicorn

from ddtree.core.sequence import Finish, Request
from ddtree.engine.errors import RequestError
from ddtree.server import app, log
from ddtree.server.errors import unavailable
from ddtree.server.exits import (
    BAD_ARGUMENTS,
    CANNOT_LOAD,
    DIED,
    DRAINED,
    OUT_OF_MEMORY,
    RANK_DIED,
    LoadError,
    exit_code,
)
from ddtree.server.inbox import Inbox
from ddtree.server.notify import notify
from ddtree.server.seam import Loaded
from ddtree.server.service import Identity, Service

CLOSE_S = 3  # for connections that do not close, and for the engine's last step
# Longer than clients keep an idle connection, or they send into one that is just being closed.
KEEP_ALIVE_S = 75
WARM_UP_TOKENS = 8  # more than one, so that a draft is verified too


@dataclass(frozen=True)
class Plan:
    """What `serve` is asked to do. `load` runs on a thread and raises LoadError."""

    identity: Identity
    load: Callable[[], Loaded]
    drain_timeout_s: float


def serve(sock: socket.socket, plan: Plan) -> int:
    """Serve on a listening socket until a signal comes; returns the exit code.

    An engine that failed may have left threads that never end, so the process does not wait.
    """
    code = asyncio.run(_serve(sock, plan))
    if code in (DIED, OUT_OF_MEMORY, RANK_DIED):
        _leave(code)
    return code


class _Uvicorn(uvicorn.Server):
    """Signals are ours: uvicorn would cut the answers, and end by the signal, not by exit 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Stopped:
    """SIGTERM or SIGINT came `once`: drain. It came `twice`: do not wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.once: asyncio.Future[None] = loop.create_future()
        self.twice: asyncio.Future[None] = loop.create_future()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._hear)

    def _hear(self) -> None:
        if not self.once.done():
            self.once.set_result(None)
        elif not self.twice.done():
            self.twice.set_result(None)


async def _serve(sock: socket.socket, plan: Plan) -> int:
    stopped = _Stopped(asyncio.get_running_loop())
    service = Service(plan.identity)
    server = _Uvicorn(
        uvicorn.Config(
            app.build(service),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=CLOSE_S,
        )
    )
    host, port = sock.getsockname()[:2]
    log.info("listening", host=host, port=port, model=plan.identity.served_model_name)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        return await _live(service, plan, stopped)
    finally:
        server.should_exit = True
        await serving


async def _live(service: Service, plan: Plan, stopped: _Stopped) -> int:
    starting = asyncio.create_task(_start(service, plan.load))
    await _first(starting, stopped.once)
    if not starting.done():
        _leave_while_loading()
    try:
        engine = (await starting).engine
    except LoadError as error:
        log.error("cannot-load", reason=str(error), hint=error.hint, exit_code=error.exit_code)
        return error.exit_code
    dying = asyncio.create_task(service.death())
    await _first(dying, stopped.once)
    if stopped.once.done():
        await _drain(service, dying, stopped.twice, plan.drain_timeout_s)
    if dying.done():
        log.error("engine-died", reason=dying.result())
        await _idle(service, CLOSE_S)  # every client hears why
        return exit_code(dying.result() or "", DIED)
    dying.cancel()
    await asyncio.to_thread(engine.stop, drain=False, timeout_s=CLOSE_S)
    log.info("drained")
    return DRAINED


async def _start(service: Service, load: Callable[[], Loaded]) -> Loaded:
    """Ready means that this very engine has generated tokens. Raises LoadError."""
    started = time.monotonic()
    loaded = await asyncio.to_thread(load)
    loaded.engine.start()
    service.use(loaded)
    log.info("loaded", seconds=time.monotonic() - started)
    await _warm_up(service, loaded)
    # or each full collection would look at all of torch again, 0.1 s in which nobody is answered
    gc.collect()
    gc.freeze()
    service.status = "ready"
    notify("READY=1\nSTATUS=serving")
    log.info(
        "ready",
        seconds=time.monotonic() - started,
        device=loaded.engine.device,
        dtype=loaded.engine.dtype,
        mode=loaded.engine.config.mode,
    )
    return loaded


async def _warm_up(service: Service, loaded: Loaded) -> None:
    prompt = tuple(loaded.tokenizer.encode("Hello", special=True))
    request = Request("warm-up", prompt, max_tokens=WARM_UP_TOKENS)
    inbox = Inbox()
    try:
        loaded.engine.submit(request, service.postbox.to(inbox, 0))
    except RequestError as error:
        raise LoadError(f"the engine refuses to warm up: {error}", BAD_ARGUMENTS) from error
    finish, reason = None, None
    while finish is None:
        arrival = (await inbox.take())[0]
        finish, reason = arrival.finish, arrival.error
    if finish is not Finish.LENGTH:
        said = reason or f"the request ended with {finish.value}"
        raise LoadError(f"no token can be generated: {said}", exit_code(said, CANNOT_LOAD))


async def _drain(
    service: Service,
    dying: asyncio.Future[str | None],
    hurry: asyncio.Future[None],
    timeout_s: float,
) -> None:
    """Refuse what is new, finish what runs; what still runs after the timeout is cut."""
    service.status = "draining"
    notify("STOPPING=1")
    log.info("draining", in_flight=service.in_flight, timeout_s=timeout_s)
    await _idle(service, timeout_s, dying, hurry)
    if service.in_flight:
        log.warning("drain-cut", in_flight=service.in_flight)
        service.fail_all(unavailable("draining"))
        await _idle(service, CLOSE_S)


async def _idle(service: Service, timeout_s: float, *or_: asyncio.Future[Any]) -> None:
    """Until no request is in flight, or one of `or_` comes first, or the time is over."""
    idle = asyncio.create_task(service.idle())
    await _first(idle, *or_, timeout_s=timeout_s)
    idle.cancel()


async def _first(*futures: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _leave_while_loading() -> None:
    """Nothing is lost. An orderly end would wait for the thread that reads the weights."""
    log.info("stopped while loading")
    _leave(DRAINED)


def _leave(code: int) -> NoReturn:
    logging.shutdown()
    os._exit(code)

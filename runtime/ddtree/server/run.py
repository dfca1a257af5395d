"""The life of the server's process: load, warm up, serve, drain. The web server is uvicorn.

It serves from the first moment on: `/health` answers while the engine's process reads the weights.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import uvicorn

from ddtree.config import EngineConfig
from ddtree.core.sequence import Finish, Request
from ddtree.engine.errors import RequestError
from ddtree.server import app, log, remote
from ddtree.server.errors import unavailable
from ddtree.server.exits import (
    BAD_ARGUMENTS,
    CANNOT_LOAD,
    DIED,
    DRAINED,
    LoadError,
    exit_code,
)
from ddtree.server.inbox import Arrival, Inbox
from ddtree.server.notify import notify
from ddtree.server.remote import Apart
from ddtree.server.seam import Loaded, Words
from ddtree.server.service import Identity, Service

CLOSE_S = 3  # for connections that do not close
# Longer than clients keep an idle connection, or they send into one that is just being closed.
KEEP_ALIVE_S = 75
WARM_UP_TOKENS = 8  # more than one, so that a draft is verified too


@dataclass(frozen=True)
class Plan:
    """What `serve` is asked to do. `words` runs on a thread and raises LoadError."""

    identity: Identity
    config: EngineConfig
    words: Callable[[], Words]
    drain_timeout_s: float
    worker: Sequence[str] = remote.WORKER  # what Python runs as the engine's process


def serve(sock: socket.socket, plan: Plan) -> int:
    """Serve on a listening socket until a signal comes; returns the exit code."""
    return asyncio.run(_serve(sock, plan))


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
        apart = await remote.start(plan.config, plan.worker)
        try:
            return await _live(service, plan, stopped, apart)
        finally:
            await apart.end()
    finally:
        server.should_exit = True
        await serving


async def _live(service: Service, plan: Plan, stopped: _Stopped, apart: Apart) -> int:
    starting = asyncio.create_task(_start(service, plan, apart))
    await _first(starting, stopped.once)
    if not starting.done():
        apart.kill()
        _leave_while_loading()
    try:
        await starting
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
    await apart.stop()
    log.info("drained")
    return DRAINED


async def _start(service: Service, plan: Plan, apart: Apart) -> None:
    """Ready means that this very engine has generated tokens. Raises LoadError."""
    started = time.monotonic()
    words = await asyncio.to_thread(plan.words)
    await apart.remote.opened
    loaded = Loaded(apart.remote, words)
    service.use(loaded)
    log.info("loaded", seconds=time.monotonic() - started)
    await _warm_up(loaded)
    gc.collect()  # or each full collection would look at the vocabulary again
    gc.freeze()
    service.status = "ready"
    notify("READY=1\nSTATUS=serving")
    log.info(
        "ready",
        seconds=time.monotonic() - started,
        device=loaded.engine.device,
        dtype=loaded.engine.dtype,
        mode=plan.config.mode,
    )


async def _warm_up(loaded: Loaded) -> None:
    engine = loaded.engine
    prompt = tuple(loaded.tokenizer.encode("Hello", special=True))
    request = Request("warm-up", prompt, max_tokens=WARM_UP_TOKENS)
    inbox = Inbox()
    try:
        engine.submit(request, inbox, 0)
    except RequestError as error:
        raise LoadError(f"the engine refuses to warm up: {error}", BAD_ARGUMENTS) from error
    answering, dying = asyncio.create_task(_end_of(inbox)), asyncio.create_task(engine.ended())
    await _first(answering, dying)
    if not answering.done():
        answering.cancel()
        said = engine.failure or "the engine has ended"
        raise LoadError(f"no token can be generated: {said}", exit_code(said, DIED))
    dying.cancel()
    last = answering.result()
    if last.finish is not Finish.LENGTH:
        said = last.error or f"the request ended with {last.finish}"
        raise LoadError(f"no token can be generated: {said}", exit_code(said, CANNOT_LOAD))


async def _end_of(inbox: Inbox) -> Arrival:
    while True:
        arrival = (await inbox.take())[0]
        if arrival.finish is not None:
            return arrival


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


def _leave_while_loading() -> NoReturn:
    """Nothing is lost. An orderly end would wait for the thread that reads the weights."""
    log.info("stopped while loading")
    logging.shutdown()
    os._exit(DRAINED)

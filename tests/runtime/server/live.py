"""A real server on a loopback port, its event loop on a thread of this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import uvicorn

from ddtree.server import app
from ddtree.server.listen import listen
from ddtree.server.remote import Remote
from ddtree.server.seam import Loaded
from ddtree.server.service import Identity, Service
from tests.runtime.server.apart import apart
from tests.runtime.server.double import Double, words

MODEL = "double-model"


@dataclass(frozen=True)
class Live:
    url: str
    engine: Double
    service: Service
    remote: Remote
    loop: asyncio.AbstractEventLoop

    @contextmanager
    def openai(self, api_key: str = "none") -> Iterator[openai.OpenAI]:
        with openai.OpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0) as client:
            yield client

    @contextmanager
    def http(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url, timeout=20, trust_env=False) as client:
            yield client

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        with self.http() as client:
            return client.post(path, json={"model": MODEL, **body})


@contextmanager
def live(
    engine: Double, *, api_key: str | None = None, template: str | None = None
) -> Iterator[Live]:
    """Serving and ready, as after the warm-up."""
    engine.start()
    started = threading.Event()
    made: list[tuple[Live, uvicorn.Server]] = []
    sock = listen("127.0.0.1", 0)

    async def main() -> None:
        service = Service(Identity(MODEL, api_key=api_key))
        async with apart(engine) as remote:
            service.use(Loaded(remote, words(template)))
            service.status = "ready"
            await serve(service, remote)

    async def serve(service: Service, remote: Remote) -> None:
        config = uvicorn.Config(
            app.build(service), log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        made.append((Live(url, engine, service, remote, asyncio.get_running_loop()), server))
        started.set()
        await server.serve(sockets=[sock])

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert started.wait(10), "the server did not start"
    running, server = made[0]
    try:
        yield running
    finally:
        server.should_exit = True
        thread.join(10)


def until(true: Callable[[], bool], timeout_s: float = 10) -> None:
    """Poll for what another thread brings about."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)

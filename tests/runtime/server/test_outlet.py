"""A stream is written within the bell's ring, and waits only where its reader does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from starlette.types import Message

from ddtree.server.outlet import Outlet


class Heard:
    """What an outlet asks of an exchange."""

    def __init__(self) -> None:
        self.over = False
        self.waiting = b""
        self.bell: Callable[[], None] = lambda: None

    def listen(self, bell: Callable[[], None]) -> None:
        self.bell = bell
        bell()

    def events(self) -> bytes:
        if self.waiting == b"fail":
            raise ConnectionError
        said, self.waiting = self.waiting, b""
        return said

    def hear(self, data: bytes) -> None:
        self.waiting += data
        self.bell()


class Client:
    """`reads` is clear while it reads nothing: then a write waits, as behind a full socket."""

    def __init__(self) -> None:
        self.read = list[bytes]()
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.read.append(message["body"])


async def opened() -> tuple[Heard, Client, asyncio.Task[None]]:
    heard, client = Heard(), Client()
    running = asyncio.create_task(Outlet(heard, heard.events, client.send).run())
    await asyncio.sleep(0)
    return heard, client, running


def test_what_is_heard_is_written_before_any_task_runs() -> None:
    async def main() -> None:
        heard, client, running = await opened()
        heard.hear(b"a")
        heard.hear(b"b")
        assert client.read == [b"a", b"b"]
        heard.over = True
        heard.hear(b"c")
        assert client.read == [b"a", b"b", b"c"]
        await running

    asyncio.run(main())


def test_a_reader_that_stops_gets_the_rest_in_one_piece() -> None:
    async def main() -> None:
        heard, client, running = await opened()
        client.reads.clear()
        for data in (b"a", b"b", b"c"):
            heard.hear(data)
            await asyncio.sleep(0)
        assert client.read == []
        client.reads.set()
        await asyncio.sleep(0.01)
        assert client.read == [b"a", b"bc"]
        heard.over = True
        heard.hear(b"d")
        await running
        assert client.read == [b"a", b"bc", b"d"]

    asyncio.run(main())


def test_a_failure_reaches_whoever_runs_it() -> None:
    async def main() -> None:
        heard, _, running = await opened()
        heard.hear(b"fail")
        with pytest.raises(ConnectionError):
            await running

    asyncio.run(main())


def test_a_client_that_is_gone_is_not_written_to() -> None:
    async def main() -> None:
        heard, client, running = await opened()
        client.reads.clear()
        heard.hear(b"a")
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        client.reads.set()
        heard.hear(b"b")
        assert client.read == []

    asyncio.run(main())

"""The engine from the event loop: asked in bulk, heard in bulk, and never waited for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from ddtree.core.sequence import Finish, Output, Request
from ddtree.engine.errors import RequestError
from ddtree.engine.stats import EngineStats
from ddtree.server import remote as remote_module
from ddtree.server import wire
from ddtree.server.exits import LoadError
from ddtree.server.inbox import Inbox
from ddtree.server.remote import Remote, connect
from tests.runtime.server.apart import apart
from tests.runtime.server.double import CONFIG, NOTHING, Double, endless

NAME = "asked"
MANY = 8 * remote_module.AT_ONCE  # streams


class Engine:
    """The other end of the socket, in the hands of a test."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._frames = wire.Frames()
        self._heard: list[object] = []

    async def hear(self) -> object:
        while not self._heard:
            data = await asyncio.get_running_loop().sock_recv(self._sock, 1 << 16)
            self._heard += self._frames.feed(data)
        return self._heard.pop(0)

    async def say(self, *words: object) -> None:
        data = b"".join(map(wire.framed, words))
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    def hang_up(self) -> None:
        self._sock.close()


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Remote, Engine]]:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.setblocking(False)
        remote, engine = await connect(ours, CONFIG), Engine(theirs)
        assert await engine.hear() == CONFIG
        double = Double()
        await engine.say(wire.Opened(double.shape, double.device, double.dtype, double.limits))
        await remote.opened
        yield remote, engine
    await remote.closed.wait()


def run(test: Callable[[Remote, Engine], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pair() as (remote, engine):
            await test(remote, engine)

    asyncio.run(main())


def test_what_a_turn_of_the_loop_asks_is_one_message() -> None:
    async def test(remote: Remote, engine: Engine) -> None:
        asked = tuple(Request(f"{index}", (1, 2), 5) for index in range(5))
        for index, request in enumerate(asked):
            remote.submit(request, Inbox(), index)
        remote.abort("3")
        remote.abort("unknown")
        assert await engine.hear() == wire.Ask(asked, ("3",))
        remote.abort("4")
        assert await engine.hear() == wire.Ask((), ("4",))

    run(test)


def test_steps_that_came_meanwhile_ring_once_and_keep_their_times() -> None:
    async def test(remote: Remote, engine: Engine) -> None:
        times = list[float]()
        rung = list[tuple[list[int], Finish | None]]()

        def bell() -> None:
            arrival = inbox.taken()[0]
            rung.append((arrival.tokens, arrival.finish))

        inbox = Inbox(lambda index, output, at: times.append(at))
        inbox.bell = bell
        remote.submit(Request(NAME, (1,), 9), inbox, 0)
        await engine.hear()
        steps = [wire.step(float(at), [Output(NAME, (at,))]) for at in range(8)]
        last = wire.step(9.0, [Output(NAME, (), finish=Finish.LENGTH), Output("gone", (1,))])
        await engine.say(*steps, last, last)
        await asyncio.sleep(0.05)
        assert rung == [([*range(8)], Finish.LENGTH)]
        assert times == [*map(float, range(8)), 9.0]

    run(test)


async def many(remote: Remote, engine: Engine, heard: list[object]) -> wire.Step:
    """A step of more than are rung at once; `heard` grows by each one's number when it is."""
    for index in range(MANY):
        inbox = Inbox()
        inbox.bell = partial(heard.append, index)
        remote.submit(Request(f"{index}", (1,), 9), inbox, 0)
    await engine.hear()
    return wire.step(1.0, [Output(f"{index}", (1,)) for index in range(MANY)])


def test_between_some_streams_and_others_the_loop_does_what_else_there_is() -> None:
    async def test(remote: Remote, engine: Engine) -> None:
        heard: list[object] = []
        loop = asyncio.get_running_loop()
        step = await many(remote, engine, heard)
        first = Inbox()

        def bell() -> None:
            loop.call_soon(heard.append, "a new request")

        first.bell = bell
        remote.submit(Request("first", (1,), 9), first, 0)
        await engine.hear()
        await engine.say(wire.step(1.0, [Output("first", (1,))]), step)
        await asyncio.sleep(0.05)
        at_once = remote_module.AT_ONCE - 1  # the first one was among them
        assert heard.index("a new request") == at_once
        heard.remove("a new request")
        assert heard == [*range(MANY)]

    run(test)


def test_what_came_before_the_end_is_heard_before_the_end() -> None:
    async def test(remote: Remote, engine: Engine) -> None:
        heard: list[object] = []
        step = await many(remote, engine, heard)
        ended = asyncio.create_task(remote.ended())
        ended.add_done_callback(lambda _: heard.append("the end"))
        await engine.say(step, wire.Died("CUDA error: unspecified"))
        await asyncio.wait_for(ended, 10)
        await asyncio.sleep(0.05)
        assert heard == [*range(MANY), "the end"]

    run(test)


def test_what_can_never_be_served_is_refused_here() -> None:
    async def test(remote: Remote, engine: Engine) -> None:
        with pytest.raises(RequestError, match="does not fit into the cache") as caught:
            remote.submit(Request(NAME, (1,) * 1996, 1), Inbox(), 0)
        assert caught.value.param == "prompt"
        await engine.say(wire.Died("CUDA error: unspecified"))
        await asyncio.wait_for(remote.ended(), 10)
        with pytest.raises(RequestError, match="CUDA error: unspecified") as caught:
            remote.submit(Request(NAME, (1,), 1), Inbox(), 0)
        assert caught.value.param == "engine"

    run(test)


def test_counters_are_those_of_now_and_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = EngineStats(1, 2, 0.5, 3, 4, 5, 6, 7, {8: 9}, NOTHING)

    async def test(remote: Remote, engine: Engine) -> None:
        first, second = asyncio.create_task(remote.stats()), asyncio.create_task(remote.stats())
        assert await engine.hear() == wire.Look()
        await engine.say(known)
        assert await first == await second == known
        monkeypatch.setattr(remote_module, "LOOK_S", 0.05)
        assert await remote.stats() == known, "an engine that does not answer is not waited for"
        assert await engine.hear() == wire.Look()
        remote.fail("gone")
        assert await remote.stats() == known

    run(test)


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        (wire.Unable("no such file", 3, "look for it"), 3, "no such file"),
        (wire.Died("OutOfMemoryError: CUDA out of memory"), 4, "out of memory"),
        (wire.Died("rank 1 was killed by SIGKILL"), 6, "rank 1"),
        (wire.Died("TypeError: what"), 1, "TypeError: what"),
    ],
)
def test_why_there_is_no_engine_has_its_exit_code(word: object, code: int, said: str) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(False)
            remote = await connect(ours, CONFIG)
            await Engine(theirs).say(word)
            with pytest.raises(LoadError, match=said) as caught:
                await remote.opened
            assert caught.value.exit_code == code
            assert caught.value.hint == getattr(word, "hint", None)
        await remote.closed.wait()

    asyncio.run(main())


def test_a_slow_loop_holds_up_no_step() -> None:
    async def main() -> None:
        engine = Double(endless)
        engine.start()
        async with apart(engine) as remote:
            inbox = Inbox()
            remote.submit(Request(NAME, (1,), 4000), inbox, 0)
            while not engine.steps:  # it is on a thread
                await asyncio.sleep(0.001)
            arrivals = tokens = 0
            while tokens < 4000:
                arrivals += 1
                tokens += len((await inbox.take())[0].tokens)
                await asyncio.sleep(0.02)
            assert tokens == 4000
            assert arrivals < engine.steps

    asyncio.run(main())

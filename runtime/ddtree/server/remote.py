"""The engine as the server sees it: a process of its own, down one socket. Lives on the event loop.

Nothing here waits for the engine: what it says is read when the loop comes to it, and all that
came meanwhile is sorted at once, so that a loop that is behind writes fewer and longer chunks.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from itertools import islice

from ddtree.config import EngineConfig, ModelShape
from ddtree.core.sequence import NOTHING, Request
from ddtree.engine.admission import sequence_of
from ddtree.engine.errors import RequestError
from ddtree.engine.others import ending, environment
from ddtree.engine.stats import EngineStats
from ddtree.server import wire
from ddtree.server.exits import DIED, LoadError, exit_code
from ddtree.server.seam import Ear

WORKER = ("-m", "ddtree.server.worker")
# Streams that are written to before the loop does anything else. Of 128 on two busy cores the first
# token came after 21 ms with all of them at once, 13.8 with 32, 10 with 16, 8 with 8, 6 with 4.
AT_ONCE = 8
LOOK_S = 2.0  # that counters may take; then the last known ones are told
ENDING_S = 30.0  # that ranks may take to leave together
_GONE_S = 5.0  # between the end of what it says and its own


class Remote(asyncio.Protocol):
    """Satisfies `EngineLike` from when `opened` is done."""

    def __init__(self, config: EngineConfig) -> None:
        loop = asyncio.get_running_loop()
        self.config = config
        self.failure: str | None = None
        self.opened: asyncio.Future[wire.Opened] = loop.create_future()
        self.closed = asyncio.Event()  # it says no more
        self._ended = asyncio.Event()
        self._loop = loop
        self._transport: asyncio.WriteTransport | None = None
        self._frames = wire.Frames()
        self._ears: dict[str, tuple[Ear, int]] = {}
        self._rung: dict[Ear, None] = {}  # those that something came for, in order
        self._requests: list[Request] = []
        self._aborted: list[str] = []
        self._seen = EngineStats(0, 0, 0.0, 0, 0, 0, 0, 0, {}, NOTHING)
        self._looking: asyncio.Future[EngineStats] | None = None

    @property
    def shape(self) -> ModelShape:
        return self.opened.result().shape

    @property
    def device(self) -> str:
        return self.opened.result().device

    @property
    def dtype(self) -> str:
        return self.opened.result().dtype

    async def ended(self) -> None:
        """Returns when it has failed, or was stopped."""
        await self._ended.wait()

    def submit(self, request: Request, ear: Ear, index: int) -> None:
        """Raises RequestError when it can never be served."""
        if self.failure is not None or self.closed.is_set():
            raise RequestError(self.failure or "the engine is shutting down", "engine")
        sequence_of(request, self.config, self.opened.result().limits)
        self._ears[request.id] = ear, index
        self._soon()
        self._requests.append(request)

    def abort(self, request_id: str) -> None:
        if request_id in self._ears:
            self._soon()
            self._aborted.append(request_id)

    async def stats(self) -> EngineStats:
        if self._ended.is_set() or not self.opened.done():
            return self._seen
        if self._looking is None:
            self._looking = self._loop.create_future()
            self._say(wire.Look())
        await asyncio.wait([self._looking], timeout=LOOK_S)
        return self._seen

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self._ring(len(self._rung))  # what it said before is heard first
        if not self.opened.done():
            self.opened.set_exception(LoadError(reason, exit_code(reason, DIED)))
            self.opened.exception()  # whoever waits for it hears it; nobody may be there yet
        self._end()

    def stop(self) -> None:
        self._say(wire.Stop())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport), "sockets have both ways"
        self._transport = transport
        self._say(self.config)

    def connection_lost(self, _: Exception | None) -> None:
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        ringing = bool(self._rung)
        for message in self._frames.feed(data):
            if isinstance(message, tuple):
                self._sort(message)
            else:
                self._hear(message)
        if not ringing:
            self._ring()

    def _ring(self, most: int = AT_ONCE) -> None:
        """Some at a time: what else the loop has to do, new requests above all, comes between."""
        for ear in list(islice(self._rung, most)):
            del self._rung[ear]
            ear.bell()
        if self._rung:
            self._loop.call_soon(self._ring)

    def _sort(self, step: wire.Step) -> None:
        at, rows = step
        for row in rows:
            output = wire.output_of(row)
            take = self._ears.get if output.finish is None else self._ears.pop
            if (found := take(output.request_id, None)) is not None:
                ear, index = found
                ear.put(index, output, at)
                self._rung[ear] = None

    def _hear(self, message: object) -> None:
        if isinstance(message, EngineStats):
            self._seen = message
            if self._looking is not None:
                self._looking.set_result(message)
                self._looking = None
        elif isinstance(message, wire.Opened):
            self.opened.set_result(message)
        elif isinstance(message, wire.Unable) and not self.opened.done():
            error = LoadError(message.message, message.exit_code, message.hint)
            self.opened.set_exception(error)
            self.opened.exception()
        elif isinstance(message, wire.Died):
            self.fail(message.reason)

    def _end(self) -> None:
        self._ended.set()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _soon(self) -> None:
        """What this turn of the loop asks goes out at its end, as one message."""
        if not self._requests and not self._aborted:
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        self._say(wire.Ask(tuple(self._requests), tuple(self._aborted)))
        self._requests.clear()
        self._aborted.clear()

    def _say(self, word: object) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(wire.framed(word))


class Apart:
    """The process, and what is known of its end."""

    def __init__(self, remote: Remote, process: Process) -> None:
        self.remote = remote
        self._process = process
        self._stopping = False
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """The orderly end; what still runs is aborted."""
        self._stopping = True
        self.remote.stop()
        await asyncio.wait([self._watching], timeout=ENDING_S)
        await self.end()

    async def end(self) -> None:
        """Without waiting for anything."""
        self.kill()
        await self._watching

    def kill(self) -> None:
        self._stopping = True
        if self._process.returncode is None:
            self._process.kill()

    async def _watch(self) -> None:
        """Whatever it says before its end is heard first."""
        await self.remote.closed.wait()
        try:
            code = await asyncio.wait_for(self._process.wait(), _GONE_S)
        except TimeoutError:
            self.kill()
            code = await self._process.wait()
        if self._stopping:
            self.remote.fail("the engine was stopped")
        else:
            self.remote.fail(f"the engine's process {ending(code)}")


async def start(config: EngineConfig, command: Sequence[str] = WORKER) -> Apart:
    """To be called on the main thread: on Linux the process ends with the thread it came from."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=DEVNULL,
            env=environment(),
        )
    return Apart(await connect(ours, config), process)


async def connect(sock: socket.socket, config: EngineConfig) -> Remote:
    loop = asyncio.get_running_loop()
    _, remote = await loop.create_unix_connection(lambda: Remote(config), sock=sock)
    return remote

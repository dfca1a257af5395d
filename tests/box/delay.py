"""A long way to a box: a TCP relay with a round trip, and so many bytes in flight a connection.

`python -m tests.box.delay ADDRESS PORT TRIP_S WINDOW` prints the port it listens on: a process of
its own, so that it never waits for the interpreter that measures.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.checkout import ROOT

_BLOCK = 1 << 16  # bytes


@contextmanager
def long_way(address: str, *, trip_s: float, window: int) -> Iterator[int]:
    """The port of this machine that leads to sshd at `address`.

    A connection moves `window` bytes in `trip_s` at most, whatever its two ends could do: the
    relay reads on only when the other end could have acknowledged what is in flight.
    """
    line = [sys.executable, "-m", __name__, address, "22", str(trip_s), str(window)]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None, "stdout is a pipe"
            yield int(relay.stdout.readline())
        finally:
            relay.kill()


class Way:
    """One direction of one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trip_s: float, window: int
    ) -> None:
        self.reader, self.writer, self.trip_s, self.credit = reader, writer, trip_s, window
        self.block = min(_BLOCK, window)
        self.acknowledged = asyncio.Event()
        self.on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def carry(self) -> None:
        await asyncio.gather(self._take(), self._deliver())

    async def _take(self) -> None:
        now = asyncio.get_running_loop().time
        data = b"-"
        while data:
            while self.credit < self.block:
                self.acknowledged.clear()
                await self.acknowledged.wait()
            data = b""
            with suppress(OSError):  # whoever spoke is gone: the other hears it half a trip later
                data = await self.reader.read(self.block)
            self.credit -= len(data)
            self.on_the_way.put_nowait((now() + self.trip_s / 2, data))

    async def _deliver(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                due, data = await self.on_the_way.get()
                await asyncio.sleep(due - loop.time())
                if not data:
                    break
                self.writer.write(data)
                await self.writer.drain()
                loop.call_later(self.trip_s / 2, self._acknowledge, len(data))
        self.writer.close()
        self._acknowledge(1 << 40)  # nobody waits any more

    def _acknowledge(self, amount: int) -> None:
        self.credit += amount
        self.acknowledged.set()


async def relay(address: str, port: int, trip_s: float, window: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(address, port)
        except OSError:
            writer.close()
            return
        ways = (Way(reader, back, trip_s, window), Way(there, writer, trip_s, window))
        await asyncio.gather(*(way.carry() for way in ways))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))

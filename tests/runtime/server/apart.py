"""The double down a socket, as in a process of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ddtree.server import wire
from ddtree.server.remote import Remote, connect
from ddtree.server.seam import Loaded
from ddtree.server.worker import Mouth, attend, heard, introduce, watch
from tests.runtime.server.double import Double, words


def loaded(engine: Double) -> Loaded:
    """A server's, whose engine it never asks."""
    remote = Remote(engine.config)
    remote.opened.set_result(wire.Opened(engine.shape, engine.device, engine.dtype, engine.limits))
    return Loaded(remote, words())


@asynccontextmanager
async def apart(engine: Double) -> AsyncIterator[Remote]:
    """Its side is on threads of this process."""
    ours, theirs = socket.socketpair()
    mouth = Mouth(theirs)
    sides = [
        threading.Thread(target=attend, args=([engine], mouth, heard(theirs))),
        threading.Thread(target=watch, args=(engine, mouth)),
    ]
    for side in sides:
        side.start()
    remote = await connect(ours, engine.config)
    introduce(engine, mouth)
    try:
        await remote.opened
        yield remote
    finally:
        remote.stop()
        for side in sides:
            await asyncio.to_thread(side.join, 10)
        theirs.close()
        await remote.closed.wait()

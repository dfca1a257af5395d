"""The engine's own process: `python -m ddtree.server.worker SOCKET`, started by `server.remote`.

It opens the engine it is told to, answers what comes down the socket, and ends with the server.
Steps never wait for the server: what its socket does not take at once a thread sends later.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

from ddtree.config import EngineConfig
from ddtree.core.sequence import Finish, Output
from ddtree.engine.errors import RequestError
from ddtree.engine.others import reason
from ddtree.server import log, wire
from ddtree.server.exits import DIED, LoadError
from ddtree.server.seam import Working

CLOSE_S = 3.0  # for the engine's last step
_READ = 1 << 18  # bytes
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> int:
    from ddtree.server.load import load_engine

    return work(load_engine, int(sys.argv[1]))


def work(load: Callable[[EngineConfig], Working], line: int) -> int:
    """The life of the process; `load` raises LoadError."""
    # a supervisor's signal is for the server, which drains and then ends this process
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)
    _die_with_the_server()
    log.to_stderr()
    sock = socket.socket(fileno=line)
    sock.set_inheritable(False)
    mouth, words = Mouth(sock), heard(sock)
    config = next(words, None)
    if not isinstance(config, EngineConfig):  # the server is gone already
        return DIED
    made: list[Working] = []
    threading.Thread(
        target=_live, args=(lambda: load(config), made, mouth), name="ddtree-life", daemon=True
    ).start()
    if not attend(made, mouth, words):
        _leave(DIED)
    return 0


def _live(load: Callable[[], Working], made: list[Working], mouth: Mouth) -> None:
    """Open the engine into `made` and watch it; the server hears why there is none."""
    try:
        engine = load()
    except LoadError as error:
        mouth.say(wire.Unable(str(error), error.exit_code, error.hint))
        _leave(error.exit_code)
    except Exception as error:
        logging.getLogger(__name__).exception("engine not opened")
        mouth.say(wire.Died(reason(error)))
        _leave(DIED)
    made.append(engine)
    engine.start()
    # or each full collection would look at all of torch again, 0.1 s without a step
    gc.collect()
    gc.freeze()
    introduce(engine, mouth)
    if watch(engine, mouth):
        _leave(DIED)


def introduce(engine: Working, mouth: Mouth) -> None:
    engine.on_step = mouth.wake
    mouth.say(wire.Opened(engine.shape, engine.device, engine.dtype, engine.limits))


def watch(engine: Working, mouth: Mouth) -> bool:
    """Until it has ended: whether it failed, of which the server has heard then."""
    engine.wait()
    if engine.failure is None:
        return False
    mouth.say(wire.Died(engine.failure))
    mouth.flush(CLOSE_S)
    return True


def attend(made: list[Working], mouth: Mouth, words: Iterator[object]) -> bool:
    """Do as the server says: True when it said the last word, False when it is gone.

    It says nothing before `made` has the engine, which was introduced to it.
    """
    for word in words:
        if isinstance(word, wire.Ask):
            _take(word, made[0], mouth)
        elif isinstance(word, wire.Look):
            mouth.say(made[0].stats())
        elif isinstance(word, wire.Stop):
            made[0].stop(drain=False, timeout_s=CLOSE_S)
            return True
    return False


def heard(sock: socket.socket) -> Iterator[object]:
    """What the server says, until it is gone."""
    frames = wire.Frames()
    with suppress(OSError):
        while data := sock.recv(_READ):
            yield from frames.feed(data)


class Mouth:
    """What the engine's process says, from any thread and in order. Nobody waits in here."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._outputs: deque[Output] = deque()
        self._turn = threading.Condition()
        self._late: deque[bytes] = deque()  # what the socket did not take, in order
        self._sender: threading.Thread | None = None

    def post(self, output: Output) -> None:
        self._outputs.append(output)

    def wake(self) -> None:
        """What was posted is a step."""
        outputs = self._outputs
        if outputs:
            posted = [outputs.popleft() for _ in range(len(outputs))]
            self.say(wire.step(time.monotonic(), posted))

    def say(self, word: object) -> None:
        data = wire.framed(word)
        with self._turn:
            if not self._late:
                data = data[self._send(data) :]
            if data:
                self._late.append(data)
                if self._sender is None:
                    self._sender = threading.Thread(
                        target=self._catch_up, name="ddtree-late", daemon=True
                    )
                    self._sender.start()
                self._turn.notify_all()

    def flush(self, timeout_s: float) -> None:
        """Until the socket has taken everything, or the time is over."""
        with self._turn:
            self._turn.wait_for(lambda: not self._late, timeout_s)

    def _send(self, data: bytes) -> int:
        """How much of it went without waiting."""
        try:
            return self._sock.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:  # nobody is left to hear it
            return len(data)

    def _catch_up(self) -> None:
        while True:
            with self._turn:
                while not self._late:
                    self._turn.wait()
                data = b"".join(self._late)
                taken = len(self._late)
            with suppress(OSError):
                self._sock.sendall(data)
            with self._turn:
                for _ in range(taken):  # not before: what is said meanwhile comes after it
                    self._late.popleft()
                self._turn.notify_all()


def _take(ask: wire.Ask, engine: Working, mouth: Mouth) -> None:
    for request in ask.requests:
        try:
            engine.submit(request, mouth.post)
        except RequestError as error:  # it has ended since: the server has checked all else
            failed = Output(request.id, (), finish=Finish.ERROR, error=error.message)
            mouth.say(wire.step(time.monotonic(), [failed]))
    for request_id in ask.aborted:
        engine.abort(request_id)


def _die_with_the_server() -> None:
    """At once, whatever this process is in. Elsewhere than on Linux the socket's end tells it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave(code: int) -> NoReturn:
    """An engine that failed may have left threads that never end."""
    logging.shutdown()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

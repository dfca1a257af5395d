"""A rank that is not the first: `python -m ddtree.engine.follow SOCKET`, started by `engine.ranks`.

It loads its share, builds what the first rank builds, and then does what that one does, order by
order. It reads nothing back: what comes of a step is the same there.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ddtree.engine.errors import CapacityError
from ddtree.engine.others import Errand, reason
from ddtree.models.errors import ModelError

GRACE_S = 2.0  # for the last order, once the first rank is gone


class Line:
    """Orders, read by a thread: what waits for a rank that is gone would never read the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ended = threading.Event()
        threading.Thread(target=self._read, name="ddtree-orders", daemon=True).start()

    def next(self) -> Any:  # noqa: ANN401 - whatever the first rank sends
        """The next order; None is the last one."""
        return self._orders.get()

    def say(self, word: object) -> None:
        with suppress(OSError):  # nobody is left to hear it
            self._connection.send(word)

    def _read(self) -> None:
        try:
            with suppress(EOFError, OSError):
                while True:
                    self._orders.put(self._connection.recv())
        finally:  # whatever it was, no more will be heard
            self._orders.put(None)
            if not self._ended.wait(GRACE_S):
                os._exit(1)

    def end(self) -> None:
        self._ended.set()


def main() -> int:
    # a supervisor's signal is for the first rank, which drains and then ends this one
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)
    line = Line(Connection(int(sys.argv[1])))
    errand = line.next()
    if not isinstance(errand, Errand):  # the first rank is gone already
        return 0
    try:
        _follow(errand, line)
    except (ModelError, CapacityError, ValueError) as error:  # the first rank says it
        line.say(error)
        return 1
    except Exception as error:
        line.say(_sendable(error))
        raise
    line.end()
    return 0


def _follow(errand: Errand, line: Line) -> None:
    # inside, because torch takes seconds, in which signals are to be passed over already
    import torch

    from ddtree.engine.build import build_runner
    from ddtree.engine.open import load_models
    from ddtree.engine.resolve import resolve_device
    from ddtree.parallel.join import join, leave, meet

    config = errand.config
    device = resolve_device(config, errand.rank)
    group = join(errand.rank, config.ranks, meet(config.ranks, errand.folder), device)
    models = load_models(config, group)
    line.say("loaded")
    if line.next() is None:  # the first rank could not load its own
        return
    with torch.inference_mode():
        runner = build_runner(config, models)
        while (order := line.next()) is not None:
            runner.obey(order)
        runner.stepper.release()
    leave()


def _sendable(error: Exception) -> Exception:
    """The error itself, where it survives the way."""
    try:
        pickle.loads(pickle.dumps(error))
    except (pickle.PicklingError, TypeError, AttributeError):
        return RuntimeError(reason(error))
    return error


if __name__ == "__main__":
    sys.exit(main())

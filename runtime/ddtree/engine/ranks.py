"""The processes of the other ranks: started, given orders, watched, ended. The first rank's side.

An order goes down a socket of each, not through a collective: an idle engine then waits in none,
so that a collective which takes long is one that hangs. Whoever holds the other end of a socket
that breaks knows that its peer is gone.
"""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ddtree.config import EngineConfig
from ddtree.engine.errors import RankError
from ddtree.engine.others import Errand, ending, environment, reason
from ddtree.parallel.join import leave, meet

NOTICED_S = 10.0  # until a death that broke a collective is known as one
ENDING_S = 30.0  # that a rank gets to end by itself; torch takes some on busy cores


@dataclass(frozen=True)
class _Other:
    rank: int
    process: subprocess.Popen[bytes]
    line: Connection
    loaded: Future[Any] = field(default_factory=Future)


class Ranks:
    """All ranks but this one. Satisfies `engine.others.Others`."""

    def __init__(self, config: EngineConfig) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ddtree-ranks-")
        self.folder = Path(self._temporary.name)
        self.store = meet(config.ranks, self.folder)  # before a death can take the folder away
        self.death: Future[Any] = Future()  # why the first of them ended
        self._closing = threading.Event()
        self._dying = threading.Lock()
        self._others = [self._start(config, rank) for rank in range(1, config.ranks)]
        for other in self._others:
            threading.Thread(
                target=self._watch, args=(other,), name=f"ddtree-rank-{other.rank}", daemon=True
            ).start()

    def agree(self) -> None:
        """Return when every rank has its weights; then have them build their engines.

        Raises what a rank failed with, RankError where it did not say.
        """
        for other in self._others:
            wait([other.loaded, self.death], return_when=FIRST_COMPLETED)
            if self.death.done():
                raise self.death.result()
        self.tell("build")

    def tell(self, order: object) -> None:
        message = pickle.dumps(order)
        for other in self._others:
            other.line.send_bytes(message)

    def cause(self, error: Exception) -> Exception:
        """The end of another rank that `error` came of, or the error itself."""
        with suppress(TimeoutError):
            death: Exception = self.death.result(NOTICED_S)
            return death
        return error

    def explain(self, error: Exception) -> str:
        return reason_of(self.cause(error))

    def close(self, release: Callable[[], None]) -> None:
        """The ranks leave together: NCCL's end is a collective, and waits for who is not there."""
        if self.death.done():
            self.kill()
            return
        self._closing.set()
        for other in self._others:
            with suppress(OSError):
                other.line.send_bytes(pickle.dumps(None))  # the last order

        def ours() -> None:
            release()
            leave()

        leaving = threading.Thread(target=ours, name="ddtree-leave", daemon=True)
        leaving.start()
        for other in self._others:
            with suppress(subprocess.TimeoutExpired):
                other.process.wait(ENDING_S)
        leaving.join(ENDING_S)
        self._kill()
        self._temporary.cleanup()

    def kill(self) -> None:
        """Without waiting for anything that may wait for one of them."""
        self._closing.set()
        self._kill()
        leave(bereaved=True)
        self._temporary.cleanup()

    def _kill(self) -> None:
        for other in self._others:
            other.process.kill()
            other.process.wait()

    def _start(self, config: EngineConfig, rank: int) -> _Other:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "ddtree.engine.follow", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment(),
            )
        line = Connection(ours.detach())
        line.send(Errand(config, rank, self.folder))
        return _Other(rank, process, line)

    def _watch(self, other: _Other) -> None:
        """Hear a rank until it is gone."""
        said: Exception | None = None
        with suppress(EOFError, OSError):
            while True:
                word = other.line.recv()
                if isinstance(word, Exception):
                    said = word
                else:
                    other.loaded.set_result(None)
        code = other.process.wait()
        with self._dying:
            if not self._closing.is_set() and not self.death.done():
                self._temporary.cleanup()
                self.death.set_result(said or RankError(f"rank {other.rank} {ending(code)}"))


def reason_of(death: Exception) -> str:
    return str(death) if isinstance(death, RankError) else reason(death)

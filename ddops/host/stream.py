"""Send pieces of files from one machine to another: several connections, each with its shard.

On each, a packer there and a keeper here are two processes joined by a pipe; no byte goes through
Python on this machine. What arrived is safe whatever happens to the rest.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from ddops.host import box_pack, box_store
from ddops.host.base import Host
from ddops.spec.environment import Piece

STORE = Path(box_store.__file__).read_text("utf-8")
_PACK = Path(box_pack.__file__).read_text("utf-8")


@dataclass(frozen=True)
class End:
    """A machine, and a Python there that runs our small programs."""

    host: Host
    python: str

    def line(self, program: str, *words: str) -> tuple[str, ...]:
        """What to start here."""
        return self.host.bulk((self.python, "-I", "-c", program, *words))


@dataclass(frozen=True)
class Store:
    """Where pieces are kept on the target, and how they are packed on the way."""

    stage: str
    codec: str  # zstd or plain


def send(
    source: End,
    target: End,
    shards: Sequence[Sequence[Piece]],
    store: Store,
    tell: Callable[[int], None],
) -> list[str]:
    """`tell` hears the bytes of each piece that arrived. Returns what went wrong."""
    keep = target.line(STORE, "receive", store.stage, store.codec)
    pipes = [Pipe(source.line(_PACK, store.codec), keep) for _ in shards]
    try:
        for pipe, shard in zip(pipes, shards, strict=True):
            pipe.ask([(p.source, p.sha256, p.size, p.offset, p.length) for p in shard])
        with ThreadPoolExecutor(max(1, len(pipes))) as pool:
            said = list(pool.map(lambda pipe: pipe.follow(lambda n: tell(int(n))), pipes))
    finally:
        for pipe in pipes:
            pipe.close()
    return [fault for fault in said if fault]


class Pipe:
    """Two processes, the output of the giver being the input of the taker."""

    def __init__(self, giver: Sequence[str], taker: Sequence[str]) -> None:
        self.complaints: list[IO[bytes]] = [TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self.giver = subprocess.Popen(
            giver,
            stdin=subprocess.PIPE,  # stays open: when ddops is killed, the giver sees its end
            stdout=subprocess.PIPE,
            stderr=self.complaints[0],
        )
        assert self.giver.stdout is not None, "stdout is a pipe"
        self.taker = subprocess.Popen(
            taker, stdin=self.giver.stdout, stdout=subprocess.PIPE, stderr=self.complaints[1]
        )
        self.giver.stdout.close()

    def ask(self, what: object) -> None:
        """One line of JSON for the giver."""
        assert self.giver.stdin is not None, "stdin is a pipe"
        with suppress(BrokenPipeError):  # it has ended: its complaint tells why
            self.giver.stdin.write(json.dumps(what).encode() + b"\n")
            self.giver.stdin.flush()

    def follow(self, hear: Callable[[str], None]) -> str | None:
        """Until both have ended; `hear` is told each line of the taker. Returns the complaint."""
        assert self.taker.stdout is not None, "stdout is a pipe"
        for line in self.taker.stdout:
            hear(line.decode())
        codes = (self.giver.wait(), self.taker.wait())
        return self._complaint() if any(codes) else None

    def close(self) -> None:
        for process in (self.giver, self.taker):
            if process.poll() is None:
                process.kill()
            process.wait()
        for pipe in (self.giver.stdin, self.taker.stdout, *self.complaints):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _complaint(self) -> str:
        """The taker's says more, unless it is well: the giver often only saw its pipe close."""
        for file in self.complaints if self.taker.returncode == 0 else reversed(self.complaints):
            file.seek(0)
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return "a connection broke"

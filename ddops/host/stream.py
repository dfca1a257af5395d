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
    """A machine, and a Python there that runs our small program."""

    host: Host
    python: str


def send(
    source: End, target: End, shards: Sequence[Sequence[Piece]], stage: str, codec: str,
    tell: Callable[[int], None],
) -> list[str]:  # fmt: skip
    """`tell` hears the bytes of each piece that arrived. Returns what went wrong."""
    lines = [_Line(source, target, stage, codec) for _ in shards]
    try:
        for line, shard in zip(lines, shards, strict=True):
            line.ask(shard)
        with ThreadPoolExecutor(len(lines)) as pool:
            faults = list(pool.map(lambda line: line.follow(tell), lines))
    finally:
        for line in lines:
            line.close()
    return [fault for fault in faults if fault]


class _Line:
    """One connection: its two processes, and what they complain of."""

    def __init__(self, source: End, target: End, stage: str, codec: str) -> None:
        self.complaints: list[IO[bytes]] = [TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self.packer = subprocess.Popen(
            source.host.bulk((source.python, "-I", "-c", _PACK, codec)),
            stdin=subprocess.PIPE,  # stays open: when ddops is killed, the packer sees its end
            stdout=subprocess.PIPE,
            stderr=self.complaints[0],
        )
        assert self.packer.stdout is not None, "stdout is a pipe"
        self.keeper = subprocess.Popen(
            target.host.bulk((target.python, "-I", "-c", STORE, "receive", stage, codec)),
            stdin=self.packer.stdout,
            stdout=subprocess.PIPE,
            stderr=self.complaints[1],
        )
        self.packer.stdout.close()

    def ask(self, shard: Sequence[Piece]) -> None:
        rows = [(one.source, one.sha256, one.size, one.offset, one.length) for one in shard]
        assert self.packer.stdin is not None, "stdin is a pipe"
        with suppress(BrokenPipeError):  # it has ended: its complaint tells why
            self.packer.stdin.write(json.dumps(rows).encode() + b"\n")
            self.packer.stdin.flush()

    def follow(self, tell: Callable[[int], None]) -> str | None:
        assert self.keeper.stdout is not None, "stdout is a pipe"
        for line in self.keeper.stdout:
            tell(int(line))
        codes = (self.packer.wait(), self.keeper.wait())
        return self._complaint() if any(codes) else None

    def close(self) -> None:
        for process in (self.packer, self.keeper):
            if process.poll() is None:
                process.kill()
            process.wait()
        for pipe in (self.packer.stdin, self.keeper.stdout, *self.complaints):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _complaint(self) -> str:
        """The receiver's says more: the sender often only saw its pipe close."""
        for file in reversed(self.complaints):
            file.seek(0)
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return "a connection broke"

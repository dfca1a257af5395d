"""A host that keeps what its commands said, word for word."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ddops.host.base import Host, Progress
from ddops.spec.command import Command, Result, Run


class Listening:
    """Another host in all else. What it reads is not kept: that may be a secret."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.said: list[Result] = []

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def home(self) -> str:
        return self._host.home

    def run(self, command: Run) -> Result:
        result = self._host.run(command)
        self.said.append(result)
        return result

    def read(self, path: str) -> bytes | None:
        return self._host.read(path)

    def apply(self, command: Command, progress: Progress | None = None) -> Result | None:
        return self._host.apply(command, progress)

    def way(self, address: str, port: int) -> str:
        return self._host.way(address, port)

    def bulk(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return self._host.bulk(argv)

    def hold(self, path: str, text: str) -> AbstractContextManager[None]:
        return self._host.hold(path, text)

    def free(self, path: str, text: str) -> None:
        self._host.free(path, text)

    def close(self) -> None:
        self._host.close()

"""The seam between ddops and a machine, implemented by `local`, `ssh`, `scripted`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from ddops.spec.command import Command, Result, Run

Progress = Callable[[float, float | None], None]
"""Called with (done, total or None) in the command's own unit: bytes for a fetch."""


class Held(Exception):
    """Somebody else holds the lock; the text is what they signed it with."""


class Host(Protocol):
    """A machine that can be looked at and changed.

    Raises `HostError` when the machine cannot be reached; a command that merely fails is a
    `Result` with its exit code for `run`, and an error of its own layer for `apply`.
    """

    @property
    def name(self) -> str: ...

    @property
    def home(self) -> str:
        """The user's home folder there."""

    def run(self, command: Run) -> Result:
        """Run to the end and return the result, whatever the exit code."""

    def read(self, path: str) -> bytes | None:
        """The file's content, or None when it does not exist."""

    def apply(self, command: Command, progress: Progress | None = None) -> Result | None:
        """Perform one command of a plan; raise `StepError` or `WeightsError` when it fails."""

    def way(self, address: str, port: int) -> str:
        """`ADDRESS:PORT` for this machine, of what is `address`:`port` for that one."""

    def bulk(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """What to start on this machine so that `argv` runs there, with its streams as bytes."""

    def hold(self, path: str, text: str) -> AbstractContextManager[None]:
        """Hold the lock file at `path`, signed with `text`. Raises `Held`.

        Whatever ends the holder gives the lock back, on a far box after a while.
        """

    def free(self, path: str, text: str) -> None:
        """Take the lock from a holder that has ended; `text` is what it signed with."""

    def close(self) -> None: ...

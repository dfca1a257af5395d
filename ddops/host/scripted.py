"""A `Host` that follows a script: answers by command line, files by path. A test double."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from ddops.errors import StepError
from ddops.host.base import Progress
from ddops.spec.command import Command, Put, Result, Run


@dataclass
class Scripted:
    """`answers` maps the start of a command line to what it says; the longest match answers."""

    answers: Mapping[str, str | Result] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    name: str = "scripted"
    home: str = "/root"
    ran: list[str] = field(default_factory=list)  # the command lines of `run`
    applied: list[Command] = field(default_factory=list)

    def run(self, command: Run) -> Result:
        self.ran.append(command.line)
        return self._answer(command)

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def apply(self, command: Command, progress: Progress | None = None) -> Result | None:
        self.applied.append(command)
        if isinstance(command, Put):
            self.files[command.path] = command.text.encode()
        if not isinstance(command, Run):
            return None
        result = self._answer(command)
        if not result.ok:
            raise StepError(f"`{command.line}` ended with exit code {result.code}")
        return result

    def way(self, address: str, port: int) -> str:
        return f"{address}:{port}"

    def bulk(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return argv

    def hold(self, path: str, text: str) -> AbstractContextManager[None]:
        return nullcontext()

    def free(self, path: str, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    @property
    def lines(self) -> list[str]:
        """What was applied, as a plan prints it."""
        return [command.line for command in self.applied]

    def _answer(self, command: Run) -> Result:
        starts = [start for start in self.answers if command.line.startswith(start)]
        said = self.answers[max(starts, key=len)] if starts else ""
        if isinstance(said, Result):
            return said
        return Result(argv=command.argv, code=0, stdout=said, stderr="", seconds=0.0)

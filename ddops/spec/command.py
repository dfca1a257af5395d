"""What can be done to a box: run a command, put a file, fetch a file. Values, not deeds.

A plan is a list of these; `--dry-run` prints it, `Host` performs it.
"""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import Field

from ddops.spec.base import Word
from ddops.spec.observed import Offered

ONE_CONNECTION = 30e6
MANY_CONNECTIONS = 300e6
"""Bytes a second that a plan reckons with: the field record saw 600 MB/s over 16 connections."""


class Run(Word):
    """Run `argv`. Secrets go in `stdin`, never in `argv` or `env`."""

    kind: Literal["run"] = "run"
    argv: tuple[str, ...]
    why: str  # the reason, as the plan prints it
    title: str = ""  # what the user reads while it runs; default: the command line
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    sudo: bool = False
    stdin: str | None = Field(default=None, repr=False)
    timeout_s: float | None = 600.0
    size: int | None = None  # bytes that it downloads
    takes_s: float | None = None  # a guess, for the plan
    may_fail: bool = False  # the plan goes on without it

    @property
    def line(self) -> str:
        assigned = [f"{k}={shlex.quote(v)}" for k, v in sorted(self.env.items())]
        return " ".join([*(["sudo", "-n"] if self.sudo else []), *assigned, shlex.join(self.argv)])


class Put(Word):
    """Write `text` to `path` atomically (temporary file, fsync, rename)."""

    kind: Literal["put"] = "put"
    path: str
    text: str = Field(repr=False)
    why: str
    mode: int = 0o644
    sudo: bool = False

    @property
    def line(self) -> str:
        return f"write {self.path} ({len(self.text.encode())} bytes, mode {self.mode:o})"


class Fetch(Word):
    """Download `url` to `path`, resuming what is there, and check it.

    The file appears at `path` only when size and sha256 are right; until then `path.part`.
    """

    kind: Literal["fetch"] = "fetch"
    url: str
    path: str
    why: str
    sha256: str | None = None
    size: int | None = None  # bytes

    @property
    def line(self) -> str:
        size = f", {self.size / 1e6:.1f} MB" if self.size else ""
        return f"fetch {self.path}{size}"

    @property
    def takes_s(self) -> float | None:
        return self.size / ONE_CONNECTION if self.size else None


class Pull(Word):
    """Bring `files` of a hub repository at `commit` to `folder`, each over many connections.

    A file appears under its name only when size and digest are right, as for `Fetch`; beside it
    what `hf download --local-dir` would have noted, so that each tool knows the other's files.
    """

    kind: Literal["pull"] = "pull"
    source: str
    repo: str
    commit: str
    folder: str
    files: tuple[Offered, ...]
    why: str
    python: str  # on the box: has huggingface_hub, for a box without aria2
    have: int = 0  # bytes of these files that an earlier run has brought
    near: str | None = Field(default=None, repr=False)  # another box's address for large files

    @property
    def size(self) -> int:
        return sum(file.size or 0 for file in self.files)

    @property
    def takes_s(self) -> float:
        return (self.size - self.have) / MANY_CONNECTIONS

    @property
    def line(self) -> str:
        rest = f", {self.have / 1e6:.1f} MB of them are there" if self.have else ""
        names = self.files[0].name if len(self.files) == 1 else f"{len(self.files)} files"
        return f"pull {names} to {self.folder}, {self.size / 1e6:.1f} MB{rest}"


class Extract(Word):
    """Take one `member` out of the zip file `archive` into `path`, and check it. Atomic."""

    kind: Literal["extract"] = "extract"
    archive: str
    member: str
    path: str
    why: str
    sha256: str | None = None
    size: int | None = None  # bytes, of the member

    @property
    def line(self) -> str:
        return f"extract {self.member.rsplit('/', 1)[-1]} to {self.path}"


Command = Run | Put | Fetch | Pull | Extract
"""One action of a plan. Every one is idempotent or guarded by the facts it was planned from."""


def told(command: Command) -> dict[str, object]:
    """As a plan's JSON tells it."""
    return {
        "kind": command.kind,
        "line": command.line,
        "why": command.why,
        "bytes": getattr(command, "size", None),
        "takes_s": getattr(command, "takes_s", None),
    }


class Result(Word):
    """What a finished `Run` said."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0

"""What an environment is made of: a Python, its packages, and every file of both.

The environment's identity is the digest of its content, not of where it lies or when it was made.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Literal

from ddops.spec.base import Word
from ddops.spec.command import Run

NOTE = ".ddops-environment.json"
"""Written last into an environment that ddops put on a box: what it was when it was proven."""


class Tree(Word):
    """A folder of the source and its place in the environment; `""` is the environment itself."""

    at: str
    source: str
    spellings: tuple[str, ...] = ()  # the same folder as other files may name it, by its links


class File(Word):
    path: str  # below the environment
    size: int  # bytes
    mode: int
    mtime_ns: int  # kept: bytecode and compiled kernels are valid for one time only
    sha256: str


class Link(Word):
    path: str
    target: str


class Binary(Word):
    """A compiled file that asks something of its machine."""

    path: str
    glibc: str | None  # the newest version it asks for, as `2.34`
    rpath: str | None  # only when it names an absolute folder


class Text(Word):
    """The content of a file that has to be read, or rewritten, to move the environment."""

    path: str
    text: str


class Package(Word):
    name: str
    version: str
    record: str  # the path of its RECORD
    built_here: bool  # not from a portable wheel: it may be built for this processor alone
    modules: tuple[str, ...]  # what it is imported as


class Patch(Word):
    """A file that is not what its package installed."""

    package: str
    path: str
    change: Literal["changed", "removed", "added"]
    installed: str | None  # sha256 as the package's RECORD says
    found: str | None


class Manifest(Word):
    schema_version: Literal[1]
    origin: str | None  # the identity of the environment it was streamed from
    prefix: str
    is_venv: bool
    system_site: bool  # sees packages of the system's Python, which do not travel
    python: str  # version
    base: str  # folder of the interpreter it was made with
    site: str  # its site-packages, below the environment
    arch: str
    glibc: str
    cpu_flags: tuple[str, ...]
    zstd: bool  # the machine can compress
    cuda: str | None  # what its torch is built for
    trees: tuple[Tree, ...]
    files: tuple[File, ...]
    links: tuple[Link, ...]
    binaries: tuple[Binary, ...]
    texts: tuple[Text, ...]
    mentions: tuple[str, ...]  # other texts that name a folder of the source
    packages: tuple[Package, ...]
    patches: tuple[Patch, ...]

    @cached_property
    def identity(self) -> str:
        """sha256 over paths, contents and permissions; times and places do not count."""
        rows = [f"{f.path}\0{f.sha256}\0{f.mode & 0o111:o}" for f in self.files]
        rows += [f"{link.path}\0->{link.target}" for link in self.links]
        return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def has(self, package: str) -> bool:
        return any(one.name == package for one in self.packages)


class Landing(Word):
    """What a box has to offer to an environment, besides the machine itself."""

    python: str | None  # version of its own `python3`, which only unpacks; None: it has none
    minors: tuple[str, ...]  # interpreters of its distribution, as `3.11`
    zstd: bool
    points_to: str | None  # the identity of the environment in use; None: none that ddops made
    occupied: bool  # its `venv` is a folder that ddops did not make
    present: tuple[str, ...]  # identities of the environments that lie there, proven


class Bringing(Word):
    """What has to be streamed before the rest of a deployment can be planned."""

    source: str
    path: str
    size: int  # bytes that the box lacks
    packages: tuple[Run, ...]  # installed before, so that it can be proven

    @property
    def line(self) -> str:
        return f"stream the environment of {self.source} to {self.path}, {self.size / 1e6:.1f} MB"

    @property
    def lines(self) -> tuple[str, ...]:
        return (*(one.title for one in self.packages), self.line)


class Piece(Word):
    """A part of a file, small enough to be sent again."""

    source: str  # the file on the machine it comes from
    sha256: str  # of the whole file
    size: int  # of the whole file
    offset: int
    length: int

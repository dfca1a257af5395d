"""The packages of a Python environment, and where each came from."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word


class Origin(Word):
    """Where a package came from that was not asked of an index by its name (PEP 610)."""

    kind: Literal["archive", "vcs", "directory"]
    url: str | None  # None: a folder of the box, or a file in one
    sha256: str | None = None  # of the archive
    vcs: str | None = None
    commit: str | None = None


class Package(Word):
    name: str
    version: str
    record_sha256: str | None  # of the RECORD file, which lists the hash of every installed file
    wheel: str | None = None  # the name that its wheel has, by the tags it was installed with
    origin: Origin | None = None


class Environment(Word):
    """The Python environment the engine ran in."""

    python: str
    platform: str
    packages: tuple[Package, ...]

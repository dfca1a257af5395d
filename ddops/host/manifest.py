"""Note beside a file of this machine what it was when it was checked."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ddops.host import atomic
from ddops.spec.manifest import FileManifest, beside


def record(path: Path, source: str, sha256: str) -> None:
    now = path.stat()
    note = FileManifest(
        path=path.name,
        size=now.st_size,
        sha256=sha256,
        mtime_ns=now.st_mtime_ns,
        source=source,
    )
    atomic.write(Path(beside(str(path))), note.text.encode())


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

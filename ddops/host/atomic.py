"""Files appear whole or not at all: temporary name, fsync, rename."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """The mode is set before the content is there, so a secret is never readable by others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def settle(path: Path, final: Path) -> None:
    """Give a finished file its name, surviving a power cut."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.replace(final)

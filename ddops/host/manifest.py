"""What a checked file was when it was checked, beside it, so that a second look need not read it.

`python -m ddops.host.manifest look PATH…` prints what lies there; `record SOURCE PATH…` writes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from ddops.host import atomic

SUFFIX = ".manifest.json"


def look(path: Path) -> dict[str, Any] | None:
    """Reads the content only when size or time differ from the manifest. None: not there."""
    path = path.expanduser().absolute()
    if path.is_dir():
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return {"path": str(path), "size": size, "sha256": None, "recorded": None}
    if not path.is_file():
        return None
    known, now = _read(path), path.stat()
    recorded = str(known["sha256"]) if known else None
    same = known and (known["size"], known["mtime_ns"]) == (now.st_size, now.st_mtime_ns)
    sha256 = recorded if same else digest(path)
    return {"path": str(path), "size": now.st_size, "sha256": sha256, "recorded": recorded}


def record(path: Path, source: str, sha256: str | None = None) -> None:
    now = path.stat()
    manifest = {
        "path": path.name,
        "size": now.st_size,
        "sha256": sha256 or digest(path),
        "mtime_ns": now.st_mtime_ns,
        "source": source,
    }
    atomic.write(beside(path), json.dumps(manifest, indent=2).encode())


def beside(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """A damaged manifest is as good as none: the file is read again."""
    try:
        found = json.loads(beside(path).read_text("utf-8"))
        return found if {"size", "sha256", "mtime_ns"} <= found.keys() else None
    except (FileNotFoundError, ValueError, AttributeError):
        return None


def main(arguments: list[str]) -> None:
    verb, *rest = arguments
    if verb == "look":
        sys.stdout.write(json.dumps([look(Path(path)) for path in rest]))
    else:
        source, *paths = rest
        for path in paths:
            record(Path(path), source)


if __name__ == "__main__":
    main(sys.argv[1:])

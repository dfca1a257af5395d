"""What a checked file was when it was checked. Lies beside it: a later look need not read it."""

from __future__ import annotations

from pydantic import ValidationError

from ddops.spec.base import Word

SUFFIX = ".manifest.json"


class FileManifest(Word):
    path: str  # the file's name
    size: int  # bytes
    sha256: str
    mtime_ns: int
    source: str

    @property
    def text(self) -> str:
        return self.model_dump_json(indent=2)


def beside(path: str) -> str:
    return f"{path}{SUFFIX}"


def read(text: str) -> FileManifest | None:
    """A damaged manifest is as good as none: the file is read again."""
    try:
        return FileManifest.model_validate_json(text)
    except ValidationError:
        return None


def settled(said: str, path: str, source: str) -> FileManifest:
    """From the last line of `box_settle.sh`: digest, size, and time of the last change."""
    sha256, size, mtime = said.split()[-3:]
    name = path.rsplit("/", 1)[-1]
    return FileManifest(
        path=name, size=int(size), sha256=sha256, mtime_ns=nanoseconds(mtime), source=source
    )


def nanoseconds(seconds: str) -> int:
    """Of a time as `stat -c %.9Y` prints it."""
    return int(seconds.replace(".", ""))

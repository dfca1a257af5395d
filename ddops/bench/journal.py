"""The folder of one run: what was found, run.json, and one file a cell. Every write is atomic.

A cell is done when `<cell id>.json` exists; that file is never written again. What failed lies
in `<cell id>.failure.json`, `<cell id>.failure-2.json`, ...: kept, and tried again next time.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ddops.errors import BenchError, SpecError
from ddops.host.atomic import write
from ddops.spec import record_text
from ddops.spec.base import Word
from ddops.spec.complaint import complaint
from ddops.spec.deployment import Deployment
from ddops.spec.matrix import Cell, Matrix
from ddops.spec.record import Record
from ddops.spec.run import Run

_FINGERPRINT_DIGITS = 8


class Found(Word):
    """What a box served before the matrix. The file exists until the box serves it again."""

    box: str
    deployment: Deployment
    running: bool


class Journal:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, out: Path, matrix: Matrix) -> Journal:
        return cls(out / f"{matrix.name}-{matrix.fingerprint[:_FINGERPRINT_DIGITS]}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time; the lock ends with the process, however it ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as held:
                raise BenchError(
                    f"another `ddops bench` is writing to {self.folder}",
                    hint="wait for it, or pass another folder with `--out`",
                ) from held
            yield

    @property
    def found(self) -> Found | None:
        return _read(self.folder / "found.json", Found)

    def keep_found(self, found: Found) -> None:
        write(self.folder / "found.json", _text(found))

    def restored(self) -> None:
        (self.folder / "found.json").unlink(missing_ok=True)

    @property
    def run(self) -> Run | None:
        return _read(self.folder / "run.json", Run)

    def keep_run(self, run: Run) -> None:
        write(self.folder / "run.json", _text(run))

    def record(self, cell: Cell) -> Record | None:
        """The good record of `cell`, if there is one."""
        return _record(self._good(cell))

    def latest(self, cell: Cell) -> Record | None:
        """The good record, else the last failure, else None."""
        failures = self._failures(cell)
        return self.record(cell) or (_record(failures[-1]) if failures else None)

    def add(self, record: Record) -> Path:
        """Write `record` where nothing lies yet."""
        if record.ok:
            path = self._good(record.cell)
        else:
            number = len(self._failures(record.cell)) + 1
            suffix = "failure" if number == 1 else f"failure-{number}"
            path = self.folder / f"{record.cell.id}.{suffix}.json"
        if path.exists():
            raise BenchError(f"{path} exists already", hint="pass another folder with `--out`")
        write(path, b"".join(record_text.lines(record)))
        return path

    def _good(self, cell: Cell) -> Path:
        return self.folder / f"{cell.id}.json"

    def _failures(self, cell: Cell) -> list[Path]:
        """Oldest first."""
        paths = self.folder.glob(f"{cell.id}.failure*.json")
        return sorted(paths, key=lambda path: (len(path.name), path.name))


def unrestored(out: Path) -> list[Journal]:
    """Runs under `out` that ended before they had put the box back."""
    return [Journal(path.parent) for path in sorted(out.glob("*/found.json"))]


_Kind = TypeVar("_Kind", bound=Word)


def _record(path: Path) -> Record | None:
    try:
        with path.open("rb") as file:
            return record_text.read(file)
    except FileNotFoundError:
        return None
    except ValueError as wrong:
        raise _damaged(path, wrong) from wrong


def _read(path: Path, kind: type[_Kind]) -> _Kind | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as wrong:
        raise _damaged(path, wrong) from wrong


def _damaged(path: Path, wrong: ValueError) -> SpecError:
    reason = str(wrong)
    if isinstance(wrong, ValidationError):
        first = complaint(wrong)
        reason = f"{first.where}: {first.message}"
    hint = "move the file away, then run the matrix again"
    return SpecError(f"{path}: {reason}", hint=hint)


def _text(value: Word) -> bytes:
    return f"{value.model_dump_json(indent=1)}\n".encode()

"""Files of a bundle become words, however hostile they are: what they may take is counted first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from ddops.bundle.bag import MOST_READ, Finding
from ddops.spec import record_text
from ddops.spec.complaint import complaint
from ddops.spec.record import Record, Trace

_T = TypeVar("_T")
_MANY: Final = 1000  # faults of one file, each of which takes a kilobyte to tell
_MOST_VALUES: Final = 300_000
_MOST_CHUNKS: Final = 3_000_000  # of a record: as columns, and what is derived from them, 0.3 GB


def parsed(path: Path, name: str, parse: Callable[[Any], _T], found: list[Finding]) -> _T | None:
    """None and a finding when the file is not what its name says."""
    return _told(path, name, lambda file: parse(_weighed(file.read())), found)


def record(path: Path, name: str, found: list[Finding], *, chunks: bool) -> Record | None:
    """Request by request where each has its line; else the file may not be long.

    Without `chunks` of these only their letters are looked at.
    """
    return _told(path, name, lambda file: _record(file, chunks=chunks), found)


def _told(path: Path, name: str, read: Callable[[BinaryIO], _T], found: list[Finding]) -> _T | None:
    try:
        with path.open("rb") as file:
            return read(file)
    except FileNotFoundError:
        found.append(Finding(name, "is missing"))
    except (OSError, ValueError) as error:
        found.append(Finding(name, _first(error)))
    return None


def _record(file: BinaryIO, *, chunks: bool) -> Record:
    parts = record_text.parts(file)
    if parts is None:
        read = Record.model_validate(_weighed(file.read(MOST_READ + 1)))
        return read if chunks else record_text.light(read)
    head, budget, heard = from_json(parts.head), _Budget(), list[Trace]()
    budget.take(head)
    for text in parts.traces:
        value = from_json(text if chunks else record_text.apart(text)[0])
        budget.take(value)
        heard.append(_trace(value, len(heard), chunks=chunks))
    return Record.model_validate({**head, "traces": tuple(heard)})


def _trace(value: object, number: int, *, chunks: bool) -> Trace:
    try:
        trace = Trace.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"traces.{number}.{_first(error)}") from None
    return trace if chunks else trace.model_copy(update={"chunks": ()})


class _Budget:
    """What one file may hold.

    From JSON to values first: each fault that pydantic finds in JSON itself carries a copy of all
    that is around it, and a hostile file has as many faults as values.
    """

    def __init__(self) -> None:
        self._values = self._chunks = 0

    def take(self, value: object) -> None:
        self._count(value)
        if self._values > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES} values besides chunks")
        if self._chunks > _MOST_CHUNKS:
            raise ValueError(f"more than {_MOST_CHUNKS} chunks")

    def _count(self, value: object) -> None:
        """Lists of chunks are apart: they may be long, and their first fault ends the reading."""
        if isinstance(value, dict):
            self._values += len(value)
            for key, inner in value.items():
                if key == "chunks" and isinstance(inner, list):
                    self._chunks += len(inner)
                else:
                    self._count(inner)
        elif isinstance(value, list):
            self._values += len(value)
            for inner in value:
                self._count(inner)


def _weighed(text: bytes) -> object:
    if len(text) > MOST_READ:
        raise ValueError(f"longer than {MOST_READ >> 20} MiB, and not a line for each request")
    value = from_json(text)
    _Budget().take(value)
    return value


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"cannot be read: {error}"
    if error.error_count() > _MANY:
        return f"{error.error_count()} things in it are wrong"
    return str(complaint(error))

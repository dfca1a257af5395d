"""The files of a bundle below `data/`, written one by one without what is private."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ddops.bundle.redact import Known, redact
from ddops.bundle.workers import mapped
from ddops.spec import record_text
from ddops.spec.bundle import Redaction
from ddops.spec.record import Record

RECORDS: Final = "records"


class Payload:
    def __init__(self, folder: Path, known: Known) -> None:
        self.files: dict[str, Path] = {}
        self._folder = folder
        self._known = known
        self._taken: dict[str, Mapping[str, int]] = {}

    @property
    def redactions(self) -> tuple[Redaction, ...]:
        """What was taken out so far, by file and kind."""
        return tuple(
            Redaction(file=name, kind=kind, count=count)
            for name, counts in sorted(self._taken.items())
            for kind, count in sorted(counts.items())
        )

    def text(self, name: str, text: str) -> str:
        """Write a file, and return it as it was written."""
        clean = redact(text, self._known)
        self._taken[name] = clean.counts
        self._path(name).write_text(clean.text, "utf-8")
        return clean.text

    def lines(self, name: str, source: Path) -> None:
        """A text that may be too long to hold. What is private must lie within a line."""
        with source.open(encoding="utf-8", errors="replace", newline="") as file:
            self._taken[name] = _cleaned(self._path(name), file, self._known)

    def records(self, folder: Path, names: Sequence[str]) -> None:
        """The records of a run, a line for each request, on all cores where that pays."""
        pairs = [(folder / name, self._path(f"{RECORDS}/{name}")) for name in names]
        size = sum(source.stat().st_size for source, _ in pairs)
        taken = mapped(partial(_record, self._known), pairs, size)
        self._taken |= zip((f"{RECORDS}/{name}" for name in names), taken, strict=True)

    def untouched(self, name: str) -> bool:
        """Nothing private was in it."""
        return not self._taken[name]

    def _path(self, name: str) -> Path:
        path = self.files[name] = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _record(known: Known, pair: tuple[Path, Path]) -> dict[str, int]:
    source, target = pair
    with source.open("rb") as file:
        if record_text.parts(file) is None:
            lines = record_text.lines(Record.model_validate_json(file.read()))
            return _copied(target, lines, known)
        file.seek(0)
        return _copied(target, file, known)


def _copied(target: Path, lines: Iterable[bytes], known: Known) -> dict[str, int]:
    counts: Counter[str] = Counter()
    with target.open("wb") as file:
        for number, line in enumerate(lines):
            text, chunks = record_text.apart(line) if number else (line, b"")
            clean = redact(text.decode(), known)
            counts.update(clean.counts)
            file.write(record_text.together(clean.text.encode(), chunks))
    return dict(counts)


def _cleaned(target: Path, lines: Iterator[str], known: Known) -> dict[str, int]:
    counts: Counter[str] = Counter()
    with target.open("w", encoding="utf-8", newline="") as file:
        for line in lines:
            clean = redact(line, known)
            counts.update(clean.counts)
            file.write(clean.text)
    return dict(counts)

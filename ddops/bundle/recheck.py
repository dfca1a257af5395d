"""Does what a bundle holds agree with itself: schemas, cross references, numbers derived again.

Hashes say that nothing changed since packing; this says that what was packed is coherent.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json

from ddops.bundle import reading, sampled
from ddops.bundle.agree import apart
from ddops.bundle.bag import Finding
from ddops.bundle.workers import mapped
from ddops.errors import BundleError
from ddops.spec.base import Word
from ddops.spec.bundle import BUNDLE_SCHEMA_VERSION, BundleInfo, Redaction, WeightsFile
from ddops.spec.packages import Environment
from ddops.spec.record import Metrics, Record
from ddops.spec.run import Run

Derive = Callable[[Record], Metrics | None]
"""Metrics from a record's traces and counters, as bench makes them."""

INFO: Final = "data/bundle.json"
RECORDS: Final = "data/records"

_W = TypeVar("_W", bound=Word)
_T = TypeVar("_T")
_WEIGHTS: Final = TypeAdapter(tuple[WeightsFile, ...])
_REDACTIONS: Final = TypeAdapter(tuple[Redaction, ...])
_OTHER_FACTS: Final = "before the box's facts changed"
_OTHER_UNIT: Final = "under an earlier unit"
_MAY_LACK: Final = "data/environment.json"  # of a box that could not be asked


@dataclass(frozen=True)
class Opened:
    """A bundle read into words; what could not be read is in `findings`.

    The records are without their chunks, which are millions; `whole` reads one with them.
    """

    info: BundleInfo | None
    run: Run | None
    records: Mapping[str, Record]  # by file name
    redactions: tuple[Redaction, ...]
    environment: Environment | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Rechecked:
    info: BundleInfo | None
    records: int  # that could be read
    derived: int  # of them, those whose numbers were derived again
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]


def open_bundle(folder: Path) -> Opened:
    found: list[Finding] = []
    head = _head(folder, found)
    read = {name: _record(folder, name, found, chunks=False) for name in _names(folder)}
    records = {name: record for name, record in read.items() if record is not None}
    return Opened(head.info, head.run, records, head.redactions, head.environment, tuple(found))


def whole(folder: Path, name: str) -> Record:
    """A record of a bundle that was opened without findings, chunks included."""
    found: list[Finding] = []
    record = _record(folder, name, found, chunks=True)
    if record is None:
        raise BundleError(f"{folder} was changed while it was read", detail=str(found[0]))
    return record


def refuse_newer(folder: Path) -> None:
    """A later format may be fine; this ddops just cannot tell."""
    try:
        said = from_json((folder / INFO).read_bytes())
    except (OSError, ValueError):
        return
    version = said.get("schema_version") if isinstance(said, dict) else None
    if isinstance(version, int) and version > BUNDLE_SCHEMA_VERSION:
        raise BundleError(
            f"{INFO}: schema version {version}, this ddops reads up to {BUNDLE_SCHEMA_VERSION}",
            hint=f"`pip install 'ddops>={said.get('ddops_version')}'`, then the same command again",
        )


def recheck(folder: Path, derive: Derive | None) -> Rechecked:
    """Reads one record at a time, so that many of them need no more memory than one.

    Without `derive` no number is derived again: that is what L3 adds to L0.
    """
    found: list[Finding] = []
    info, run, redactions, _ = _head(folder, found)
    if run is not None:
        found += _run(run)
        redacted = any(each.file == "run.json" for each in redactions)
        found += _units(folder, run, redacted=redacted)
    if run and info and info.fingerprint != run.fingerprint:
        found.append(Finding(INFO, "names another matrix than data/run.json"))
    look, tally = partial(_looked, folder, run, derive), Counter[str]()
    names = _names(folder)
    size = sum((folder / RECORDS / name).stat().st_size for name in names)
    for findings, counted in mapped(look, names, size):
        found += findings
        tally.update(counted)
    if not tally["read"]:
        found.append(Finding(RECORDS, "holds no record"))
    notes = (
        f"{tally[what]} of {tally['read']} records were measured {what}"
        for what in (_OTHER_FACTS, _OTHER_UNIT)
        if tally[what]
    )
    return Rechecked(info, tally["read"], tally["derived"], tuple(notes), tuple(found))


def _looked(
    folder: Path, run: Run | None, derive: Derive | None, name: str
) -> tuple[list[Finding], Counter[str]]:
    """What is wrong with one record, and what it counts as."""
    found, tally, path = list[Finding](), Counter[str](), f"{RECORDS}/{name}"
    record = _record(folder, name, found, chunks=derive is not None)
    if record is None:
        return found, tally
    tally["read"] += 1
    if derive is not None:
        found += numbers(path, record, derive)
        tally["derived"] += record.metrics is not None
    if derive is not None and run is not None:
        found += sampled.findings(folder, path, record, run)
    if run is not None:
        found += (Finding(path, why) for why in _strange(name, record, run))
        tally.update(_earlier(record, run))
    return found, tally


def numbers(name: str, record: Record, derive: Derive) -> Iterator[Finding]:
    """Aggregates that do not follow from the traces beside them."""
    if record.metrics is None:
        return
    try:
        derived = derive(record)
    except (ArithmeticError, ValueError) as error:
        yield Finding(name, f"has traces that no client can have seen: {error}", "L3")
        return
    if derived is None:
        yield Finding(name, "has metrics, but no window they were measured in", "L3")
        return
    stated = record.metrics.model_fields_set  # an older record lacks what was added since
    said, right = (of.model_dump(include=stated) for of in (record.metrics, derived))
    for key, told, found in apart(said, right):
        yield Finding(name, f"metrics.{key} is {told}, its traces give {found}", "L3")


def _run(run: Run) -> Iterator[Finding]:
    if run.fingerprint != run.matrix.fingerprint:
        yield Finding("data/run.json", "the fingerprint is not that of the matrix beside it")


def _units(folder: Path, run: Run, *, redacted: bool) -> Iterator[Finding]:
    for name, served in run.served.items():
        path = folder / "data" / "units" / f"{name}.service"
        if not path.is_file() or path.read_bytes() != served.unit.encode():
            yield Finding(f"data/units/{name}.service", "is not the unit in data/run.json")
        exact = hashlib.sha256(served.unit.encode()).hexdigest() == served.unit_sha256
        if not exact and not redacted:
            yield Finding("data/run.json", f"the unit of {name} does not have the sha256 it claims")


def _strange(name: str, record: Record, run: Run) -> Iterator[str]:
    if record.matrix_fingerprint != run.fingerprint:
        yield "was measured for another matrix"
    if record.cell.variant not in run.matrix.variants:
        yield f"variant {record.cell.variant.name} is not in the matrix"
    if record.load != run.matrix.load:
        yield "was measured under another load than the matrix asks for"
    good = f"{record.cell.id}.json"
    if name != good and not name.startswith(f"{record.cell.id}.failure"):
        yield f"holds the record of {record.cell.id}"
    if name == good and not record.ok:
        yield "its name says the cell is good, its gates do not"
    if name != good and record.ok:
        yield "its name says the cell failed, its gates do not"


def _earlier(record: Record, run: Run) -> Iterator[str]:
    """What a resumed run may have changed on the way: no fault, but to be known."""
    if record.box_facts_sha256 != run.box_facts_sha256:
        yield _OTHER_FACTS
    served = run.served.get(record.cell.variant.name)
    if record.unit_sha256 not in ("", served.unit_sha256 if served else None):
        yield _OTHER_UNIT


class _Head(NamedTuple):
    info: BundleInfo | None
    run: Run | None
    redactions: tuple[Redaction, ...]
    environment: Environment | None


def _head(folder: Path, found: list[Finding]) -> _Head:
    """All but the records; what is wrong with it goes to `found`."""
    info = _read(folder, INFO, BundleInfo, found)
    run = _read(folder, "data/run.json", Run, found)
    taken, weights = "data/redactions.json", "data/weights.json"
    redactions = reading.parsed(folder / taken, taken, _REDACTIONS.validate_python, found)
    reading.parsed(folder / weights, weights, _WEIGHTS.validate_python, found)
    there = (folder / _MAY_LACK).exists()
    environment = _read(folder, _MAY_LACK, Environment, found) if there else None
    return _Head(info, run, redactions or (), environment)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / RECORDS).glob("*.json"))


def _record(folder: Path, name: str, found: list[Finding], *, chunks: bool) -> Record | None:
    return reading.record(folder / RECORDS / name, f"{RECORDS}/{name}", found, chunks=chunks)


def _read(folder: Path, name: str, kind: type[_W], found: list[Finding]) -> _W | None:
    return reading.parsed(folder / name, name, kind.model_validate, found)

"""Does what a bundle holds agree with itself: schemas, cross references, numbers derived again.

Hashes say that nothing changed since packing; this says that what was packed is coherent.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ddops.bundle.bag import Finding
from ddops.errors import BundleError
from ddops.spec.base import Word
from ddops.spec.bundle import BUNDLE_SCHEMA_VERSION, BundleInfo, Environment, Redaction, WeightsFile
from ddops.spec.record import Metrics, Record
from ddops.spec.run import Run

CLOSE: Final = 1e-9  # relative: `sum` of floats is not the same in every Python
Derive = Callable[[Record], Metrics | None]
"""Metrics from a record's traces and counters, as bench makes them."""

INFO: Final = "data/bundle.json"

_W = TypeVar("_W", bound=Word)
_T = TypeVar("_T")
_WEIGHTS: Final = TypeAdapter(tuple[WeightsFile, ...])
_REDACTIONS: Final = TypeAdapter(tuple[Redaction, ...])
_MANY: Final = 1000  # faults of one file, each of which takes a kilobyte to tell
_MOST_VALUES: Final = 300_000
_MOST_TOKENS: Final = 2_000_000  # of a record: each has its own time between tokens
_OTHER_FACTS: Final = "before the box's facts changed"
_OTHER_UNIT: Final = "under an earlier unit"
_MAY_LACK: Final = "data/environment.json"  # of a box that could not be asked


@dataclass(frozen=True)
class Opened:
    """A bundle read into words; what could not be read is in `findings`."""

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
    read = {name: _read(folder, f"data/records/{name}", Record, found) for name in _names(folder)}
    records = {name: record for name, record in read.items() if record is not None}
    return Opened(head.info, head.run, records, head.redactions, head.environment, tuple(found))


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
    tally = Counter[str]()
    for name in _names(folder):
        record = _read(folder, f"data/records/{name}", Record, found)
        if record is not None:
            tally["read"] += 1
        if record is not None and derive is not None:
            found += numbers(f"data/records/{name}", record, derive)
            tally["derived"] += record.metrics is not None
        if record is not None and run is not None:
            found += (Finding(f"data/records/{name}", why) for why in _strange(name, record, run))
            tally.update(_earlier(record, run))
    if not tally["read"]:
        found.append(Finding("data/records", "holds no record"))
    notes = (
        f"{tally[what]} of {tally['read']} records were measured {what}"
        for what in (_OTHER_FACTS, _OTHER_UNIT)
        if tally[what]
    )
    return Rechecked(info, tally["read"], tally["derived"], tuple(notes), tuple(found))


def numbers(name: str, record: Record, derive: Derive) -> Iterator[Finding]:
    """Aggregates that do not follow from the traces beside them."""
    if record.metrics is None:
        return
    chunks = (chunk for trace in record.traces for chunk in trace.chunks)
    if sum(max(chunk.tokens, 0) for chunk in chunks) > _MOST_TOKENS:
        yield Finding(name, f"has traces of more than {_MOST_TOKENS} tokens", "L3")
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
    said, right = (_flat(of.model_dump(include=stated)) for of in (record.metrics, derived))
    for key in sorted({*said, *right}):
        told, found = said.get(key), right.get(key)
        if not _close(told, found):
            yield Finding(name, f"metrics.{key} is {told}, its traces give {found}", "L3")


def _flat(value: object, path: str = "") -> dict[str, object]:
    """`ttft_s.p50` and `accepted_per_position.0` instead of nested values."""
    if isinstance(value, dict):
        below = value.items()
    elif isinstance(value, tuple):
        below = dict(enumerate(value)).items()
    else:
        return {path.removesuffix("."): value}
    return {k: v for key, inner in below for k, v in _flat(inner, f"{path}{key}.").items()}


def _close(told: object, found: object) -> bool:
    if isinstance(told, int | float) and isinstance(found, int | float):
        return math.isclose(told, found, rel_tol=CLOSE, abs_tol=1e-12)
    return told == found


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
    redactions = _parsed(folder, "data/redactions.json", _REDACTIONS.validate_python, found)
    _parsed(folder, "data/weights.json", _WEIGHTS.validate_python, found)
    environment = _read(folder, _MAY_LACK, Environment, found)
    return _Head(info, run, redactions or (), environment)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "data" / "records").glob("*.json"))


def _read(folder: Path, name: str, kind: type[_W], found: list[Finding]) -> _W | None:
    return _parsed(folder, name, kind.model_validate, found)


def _parsed(folder: Path, name: str, parse: Callable[[Any], _T], found: list[Finding]) -> _T | None:
    """None and a finding when the file is not what its name says.

    From JSON to values first: each fault that pydantic finds in JSON itself carries a copy of all
    that is around it, and a hostile file has as many faults as values.
    """
    try:
        value = from_json((folder / name).read_bytes())
        if _values(value) > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES} values besides chunks")
        return parse(value)
    except FileNotFoundError:
        if name != _MAY_LACK:
            found.append(Finding(name, "is missing"))
    except (OSError, ValueError) as error:
        found.append(Finding(name, _first(error)))
    return None


def _values(value: object) -> int:
    """Lists of chunks are apart: they may be long, and their first fault ends the reading."""
    if isinstance(value, dict):
        below = (v for k, v in value.items() if not (k == "chunks" and isinstance(v, list)))
        return len(value) + sum(map(_values, below))
    return len(value) + sum(map(_values, value)) if isinstance(value, list) else 0


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"cannot be read: {error}"
    if error.error_count() > _MANY:
        return f"{error.error_count()} things in it are wrong"
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"

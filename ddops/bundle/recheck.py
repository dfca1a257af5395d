"""Does what a bundle holds agree with itself: schemas, cross references, numbers derived again.

Hashes say that nothing changed since packing; this says that what was packed is coherent.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ddops.bundle.bag import Finding
from ddops.errors import BundleError
from ddops.spec.base import Word
from ddops.spec.bundle import BUNDLE_SCHEMA_VERSION, BundleInfo, Environment, Redaction, WeightsFile
from ddops.spec.record import Metrics, Record
from ddops.spec.run import Run

CLOSE: Final = 1e-9  # relative: `sum` of floats is not the same in every Python
Derive = Callable[[Record], Metrics | None]
"""Metrics from a record's traces and counters, as bench makes them."""

_W = TypeVar("_W", bound=Word)
_T = TypeVar("_T")
_WEIGHTS: Final = TypeAdapter(tuple[WeightsFile, ...])
_REDACTIONS: Final = TypeAdapter(tuple[Redaction, ...])
_MAY_LACK: Final = "data/environment.json"  # of a box that could not be asked


@dataclass(frozen=True)
class Opened:
    """A bundle read into words; what could not be read is in `findings`."""

    info: BundleInfo | None
    run: Run | None
    records: Mapping[str, Record]  # by file name
    redactions: tuple[Redaction, ...]
    findings: tuple[Finding, ...]


def open_bundle(folder: Path) -> Opened:
    found: list[Finding] = []
    info = _read(folder, "data/bundle.json", BundleInfo, found)
    run = _read(folder, "data/run.json", Run, found)
    names = sorted(path.name for path in (folder / "data" / "records").glob("*.json"))
    read = {name: _read(folder, f"data/records/{name}", Record, found) for name in names}
    redactions = _parsed(folder, "data/redactions.json", _REDACTIONS.validate_json, found)
    _parsed(folder, "data/weights.json", _WEIGHTS.validate_json, found)
    _read(folder, _MAY_LACK, Environment, found)
    records = {name: record for name, record in read.items() if record is not None}
    return Opened(info, run, records, redactions or (), tuple(found))


def refuse_newer(folder: Path) -> None:
    """A later format may be fine; this ddops just cannot tell."""
    try:
        said = TypeAdapter(dict[str, Any]).validate_json((folder / "data/bundle.json").read_bytes())
    except (OSError, ValidationError):
        return
    version = said.get("schema_version")
    if isinstance(version, int) and version > BUNDLE_SCHEMA_VERSION:
        raise BundleError(
            f"data/bundle.json: schema version {version}, this ddops reads up to "
            f"{BUNDLE_SCHEMA_VERSION}",
            hint=f"`pip install 'ddops>={said.get('ddops_version')}'`, then the same command again",
        )


def recheck(folder: Path, opened: Opened, derive: Derive) -> Iterator[Finding]:
    yield from opened.findings
    for name, record in opened.records.items():
        yield from numbers(f"data/records/{name}", record, derive)
    if opened.run is not None:
        yield from _run(opened.run)
        redacted = any(each.file == "run.json" for each in opened.redactions)
        yield from _units(folder, opened.run, redacted=redacted)
        for name, record in opened.records.items():
            for reason in _strange(name, record, opened.run):
                yield Finding(f"data/records/{name}", reason)
    if opened.run and opened.info and opened.info.fingerprint != opened.run.fingerprint:
        yield Finding("data/bundle.json", "names another matrix than data/run.json")
    if not opened.records:
        yield Finding("data/records", "holds no record")


def numbers(name: str, record: Record, derive: Derive) -> Iterator[Finding]:
    """Aggregates that do not follow from the traces beside them."""
    if record.metrics is None:
        return
    try:
        derived = derive(record)
    except (ArithmeticError, ValueError) as error:
        yield Finding(name, f"has traces that no client can have seen: {error}")
        return
    if derived is None:
        yield Finding(name, "has metrics, but no window they could have been measured in")
        return
    said, right = _flat(record.metrics.model_dump()), _flat(derived.model_dump())
    for key in sorted({*said, *right}):
        told, found = said.get(key), right.get(key)
        if not _close(told, found):
            yield Finding(name, f"metrics.{key} is {told}, its traces give {found}")


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


def notes(run: Run, records: Mapping[str, Record]) -> Iterator[str]:
    """What a resumed run may have changed on the way: no fault, but to be known."""
    facts = sum(r.box_facts_sha256 != run.box_facts_sha256 for r in records.values())
    if facts:
        yield f"{facts} of {len(records)} records were measured before the box's facts changed"
    served = {name: note.unit_sha256 for name, note in run.served.items()}
    units = sum(
        r.unit_sha256 not in ("", served.get(r.cell.variant.name)) for r in records.values()
    )
    if units:
        yield f"{units} of {len(records)} records were measured under an earlier unit"


def _read(folder: Path, name: str, kind: type[_W], found: list[Finding]) -> _W | None:
    return _parsed(folder, name, kind.model_validate_json, found)


def _parsed(
    folder: Path, name: str, parse: Callable[[bytes], _T], found: list[Finding]
) -> _T | None:
    """None and a finding when the file is not what its name says."""
    try:
        return parse((folder / name).read_bytes())
    except FileNotFoundError:
        if name != _MAY_LACK:
            found.append(Finding(name, "is missing"))
    except (OSError, ValidationError) as error:
        found.append(Finding(name, _first(error)))
    return None


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"cannot be read: {error}"
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"

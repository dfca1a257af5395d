"""What another client measured of the same load, put beside a cell of a run and kept there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ddops.analysis.crosscheck import Crosscheck
from ddops.analysis.crosscheck import crosscheck as beside
from ddops.bench.foreign import read as read_foreign
from ddops.errors import UsageError
from ddops.flows.runs import FOREIGN, Stored, chosen, load, read
from ddops.host.atomic import write
from ddops.spec.foreign import Adopted, Foreign
from ddops.spec.matrix import Pace
from ddops.spec.record import Record
from ddops.spec.tool import Tool


@dataclass(frozen=True)
class Wanted:
    file: Path
    run: Path | None = None  # None: the last one
    cell: str | None = None  # None: the one at the same pace
    tool: Tool | None = None  # None: by the look of the file
    version: str | None = None  # of a tool that does not say


@dataclass(frozen=True)
class Kept:
    found: Crosscheck
    path: Path
    new: bool  # False: it lay there already


def crosscheck(wanted: Wanted) -> Kept:
    """Raises `UsageError` where no good cell was measured at the same pace."""
    result = _result(wanted.file, wanted.tool, wanted.version)
    stored = load(chosen(wanted.run))
    record = good_cell(stored, wanted.cell) if wanted.cell else _alike(stored, result)
    return _keep(stored, record, result)


def adopt(stored: Stored, record: Record, file: Path, tool: Tool, version: str | None) -> Kept:
    """`file` is what a client found of the load of `record`."""
    return _keep(stored, record, _result(file, tool, version))


def good_cell(stored: Stored, cell: str) -> Record:
    good = [record for record in stored.records.values() if _good(record)]
    found = [record for record in good if record.cell.id == cell]
    if not found:
        raise UsageError(f"{stored.folder} has no good cell `{cell}`", hint=_known(good))
    return found[-1]


def _result(file: Path, tool: Tool | None, version: str | None) -> Foreign:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}",
            hint="name the file that the other client wrote",
        ) from None
    return read_foreign(data, file.name, tool, version)


def _keep(stored: Stored, record: Record, result: Foreign) -> Kept:
    name = f"{record.cell.id}.{result.tool}-{result.sha256[:8]}.json"
    path = stored.folder / FOREIGN / name
    text = f"{Adopted(cell=record.cell.id, result=result).model_dump_json(indent=1)}\n".encode()
    new = not path.is_file() or path.read_bytes() != text
    if new:
        write(path, text)
    return Kept(beside(record, result), path, new)


def kept(stored: Stored) -> tuple[Crosscheck, ...]:
    """All that lie in a run's folder, beside cells that are still good."""
    good = {record.cell.id: record for record in stored.records.values() if _good(record)}
    paths = sorted((stored.folder / FOREIGN).glob("*.json"))
    adopted = [read(path, Adopted) for path in paths]
    return tuple(beside(good[one.cell], one.result) for one in adopted if one.cell in good)


def _alike(stored: Stored, result: Foreign) -> Record:
    """The one good cell at the same pace."""
    good = [record for record in stored.records.values() if _good(record)]
    pace = _pace(result)
    found = [r for r in good if r.cell.pace == pace and not r.cell.again]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"{result.file} was measured at {pace}, and {stored.folder} has no good cell there",
            hint=_known(good),
        )
    raise UsageError(
        f"{stored.folder} has {len(found)} cells at {pace}", hint=f"name one with `--cell`: "
        f"{', '.join(record.cell.id for record in found)}",
    )  # fmt: skip


def _pace(result: Foreign) -> Pace:
    if result.rate is not None:
        return Pace(arrivals="poisson", rate=result.rate)
    return Pace(concurrency=result.concurrency or 0)


def _good(record: Record) -> bool:
    return record.ok and record.metrics is not None


def _known(good: Iterable[Record]) -> str:
    ids = ", ".join(record.cell.id for record in good)
    return f"its good cells are {ids}" if ids else "measure it again: `ddops bench`"

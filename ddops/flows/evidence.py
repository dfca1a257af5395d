"""The records that a comparison or a claim rests on, from a run's folder or from its bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ddops.analysis.pairs import Evidence
from ddops.bundle import recheck
from ddops.errors import UsageError
from ddops.flows.bundle_verify import derived, read_sound, unpacked
from ddops.flows.runs import load
from ddops.spec.record import Record
from ddops.spec.run import Run
from ddops.spec.transcript import TRANSCRIPT


def evidence(path: Path) -> Evidence:
    """Raises `UsageError` where `path` is neither, `BundleError` where a bundle has a fault."""
    if not path.exists():
        raise UsageError(f"there is no run and no bundle {path}", hint="measure one: `ddops bench`")
    if (path / "run.json").is_file():
        stored = load(path)
        return last(stored.run, stored.records, stored.whole)
    if path.suffix in (".yaml", ".yml") or (path / TRANSCRIPT).is_file():
        raise UsageError(
            f"{path} is a transcript: figures without the requests behind them",
            hint="check what is stated of it: `ddops claims FILE`",
        )
    if path.is_dir() and not (path / "bagit.txt").is_file():
        raise UsageError(
            f"{path} is neither a run nor a bundle: it has no run.json and no bagit.txt",
            hint="name a folder that `ddops bench` or an archive that `ddops bundle create` wrote",
        )
    with unpacked(path) as folder:
        return _bundled(path, folder)


def _bundled(path: Path, folder: Path) -> Evidence:
    opened = read_sound(path, folder)
    assert opened.run, "what is not there is a finding"
    return last(opened.run, opened.records, partial(recheck.whole, folder))


def last(run: Run, records: Mapping[str, Record], whole: Callable[[str], Record]) -> Evidence:
    """`whole` reads the record of a name with its chunks: one at a time, for they are many."""
    ordered = sorted(records.items(), key=lambda each: each[1].started_at)
    last = {record.cell.id: (name, record) for name, record in ordered}
    strange = {
        cell: finding.reason
        for cell, (name, _) in last.items()
        for finding in recheck.numbers(cell, whole(name), derived)
    }
    return Evidence(run, {cell: record for cell, (_, record) in last.items()}, strange)

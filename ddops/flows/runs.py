"""Run folders: which one is meant, and what lies in it. `ddops bench` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ddops.errors import SpecError, UsageError
from ddops.facts import environment as probe
from ddops.host.atomic import write
from ddops.host.base import Host
from ddops.host.local import Local
from ddops.spec import record_text
from ddops.spec.base import Word
from ddops.spec.complaint import complaint
from ddops.spec.packages import Environment
from ddops.spec.record import Record
from ddops.spec.run import Run

RESULTS = Path("results")
FOREIGN = "foreign"  # what other clients measured, in a run's folder
_NOT_RECORDS = ("run.json", "found.json", "environment.json")
_W = TypeVar("_W", bound=Word)


@dataclass(frozen=True)
class Stored:
    """A run as it lies on disk: records by file name, in the order they were measured.

    They are without their chunks, which are millions; `whole` reads one with them.
    """

    folder: Path
    run: Run
    records: dict[str, Record]

    def texts(self) -> dict[str, str]:
        """The files themselves."""
        names = ("run.json", *self.records)
        return {name: (self.folder / name).read_text("utf-8") for name in names}

    def whole(self, name: str) -> Record:
        return _record(self.folder / name, chunks=True)


def chosen(folder: Path | None) -> Path:
    """`folder`, else the run under `results/` that was written to last."""
    if folder is not None:
        if not (folder / "run.json").is_file():
            raise UsageError(
                f"{folder} is not a run: it has no run.json",
                hint="name the folder that `ddops bench` printed, for example `results/local-…`",
            )
        return folder
    runs = [path.parent for path in RESULTS.glob("*/run.json")]
    if not runs:
        raise UsageError(
            "there is no run under `results/`", hint="measure one: `ddops bench local --matrix`"
        )
    return max(runs, key=_written)


def load(folder: Path) -> Stored:
    run = read(folder / "run.json", Run)
    names = [p.name for p in folder.glob("*.json") if p.name not in _NOT_RECORDS]
    found = [(name, _record(folder / name, chunks=False)) for name in sorted(names)]
    if not found:
        raise UsageError(
            f"{folder} holds no records yet", hint="measure its cells: `ddops bench local --matrix`"
        )
    found.sort(key=lambda each: each[1].started_at)
    return Stored(folder=folder, run=run, records=dict(found))


def environment(stored: Stored, host: Host | None = None) -> Environment | None:
    """The packages the engine ran with: asked for once, then kept in the run's folder.

    A bench asks its `host` when it has measured. Later this machine is asked: None when the
    interpreter that the box's facts name is not here.
    """
    kept = stored.folder / "environment.json"
    if kept.is_file():
        return read(kept, Environment)
    python = stored.run.box_facts.get("python")
    interpreter = python.get("executable") if isinstance(python, dict) else None
    if not isinstance(interpreter, str) or (host is None and not Path(interpreter).is_file()):
        return None
    said = (host or Local()).run(probe.command(interpreter))
    if not said.ok:
        return None
    found = probe.parse(said.stdout)
    write(kept, f"{found.model_dump_json(indent=1)}\n".encode())
    return found


def read(path: Path, kind: type[_W]) -> _W:
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as wrong:
        raise _damaged(path, wrong) from None


def _record(path: Path, *, chunks: bool) -> Record:
    try:
        with path.open("rb") as file:
            return record_text.read(file, chunks=chunks)
    except ValueError as wrong:
        raise _damaged(path, wrong) from None


def _damaged(path: Path, wrong: ValueError) -> SpecError:
    reason = complaint(wrong) if isinstance(wrong, ValidationError) else wrong
    return SpecError(
        f"{path}: {reason}",
        hint="was it edited, or written by another version of ddops? Move it away and measure "
        "that cell again",
    )


def _written(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.glob("*.json"))

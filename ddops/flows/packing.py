"""The folder of a bundle is laid out: what the run left, what was seen around it, its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddops import __version__
from ddops.bundle import bag, contents
from ddops.bundle.bag import Content
from ddops.bundle.payload import RECORDS, Payload
from ddops.flows.private import known_here
from ddops.flows.report import drawn, viewed
from ddops.flows.runs import Stored, environment
from ddops.report.view import View
from ddops.spec import record_text
from ddops.spec.record import Record
from ddops.spec.run import Run


@dataclass(frozen=True)
class Laid:
    folder: Path
    files: Mapping[str, Content]  # all of them, by name below `folder`
    redacted: Mapping[str, int]  # by kind


def laid(stored: Stored, below: Path) -> Laid:
    """The bundle of a run as a folder below `below`, checked by nobody yet."""
    source = contents.Source(
        run=stored.run,
        text=(stored.folder / "run.json").read_text("utf-8"),
        records=stored.records,
        environment=environment(stored),
        ddops_version=__version__,
    )
    told = contents.info(source)
    folder = below / told.name
    payload = Payload(folder / "data", known_here(stored.run))
    payload.records(stored.folder, [*stored.records])
    written = {name: payload.text(name, text) for name, text in contents.texts(source).items()}
    for name, path in _kept(stored.folder).items():
        payload.lines(name, path)
    seen = inside(Run.model_validate_json(written["run.json"]), _cleaned(stored, payload))
    pages = drawn(seen)
    payload.text("report/report.html", pages.html)
    payload.text("report/report.md", pages.markdown)
    redactions = payload.redactions
    payload.text("redactions.json", contents.redactions_file(redactions))
    readme = contents.readme(told, seen.claims, redactions).encode()
    tags = bag.bagged(payload.files, readme, contents.bag_info(told))
    for name, content in tags.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
    return Laid(folder, tags, _by_kind(payload))


def inside(run: Run, records: Mapping[str, Record]) -> View:
    """As the report inside a bundle sees its records."""
    ordered = sorted(records.items(), key=lambda each: each[1].started_at)
    return viewed(run, {f"../{RECORDS}/{name}": record for name, record in ordered})


def _cleaned(stored: Stored, payload: Payload) -> dict[str, Record]:
    """The records as they lie in the bundle; read again only where something was taken out."""
    records = dict(stored.records)
    for name in records:
        inside = f"{RECORDS}/{name}"
        if not payload.untouched(inside):
            with payload.files[inside].open("rb") as file:
                records[name] = record_text.read(file, chunks=False)
    return records


def _kept(folder: Path) -> dict[str, Path]:
    """What a bench keeps of each cell besides its record."""
    found = (path for kind in ("logs", "telemetry") for path in (folder / kind).glob("*"))
    return {path.relative_to(folder).as_posix(): path for path in sorted(found) if path.is_file()}


def _by_kind(payload: Payload) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for redaction in payload.redactions:
        kinds[redaction.kind] += redaction.count
    return dict(kinds)

"""The folder of a bundle is laid out: what the run left, what was seen around it, its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ddops import __version__
from ddops.bundle import bag, contents, crate, derived
from ddops.bundle.bag import Content
from ddops.bundle.payload import RECORDS, Payload
from ddops.flows import kept, telemetry
from ddops.flows.private import known_here
from ddops.flows.report import drawn, findings_of, viewed
from ddops.flows.runs import Stored, environment, read
from ddops.report.view import View
from ddops.spec import record_text
from ddops.spec.bundle import WeightsPart
from ddops.spec.environment import Manifest
from ddops.spec.record import Record
from ddops.spec.run import Run

_PARTS = TypeAdapter(tuple[WeightsPart, ...])


@dataclass(frozen=True)
class Laid:
    folder: Path
    files: Mapping[str, Content]  # all of them, by name below `folder`
    redacted: Mapping[str, int]  # by kind


def laid(stored: Stored, below: Path) -> Laid:
    """The bundle of a run as a folder below `below`, checked by nobody yet."""
    source = _source(stored)
    told = contents.info(source)
    folder = below / told.name
    payload = Payload(folder / "data", known_here(stored.run))
    payload.records(stored.folder, [*stored.records])
    written = {name: payload.text(name, text) for name, text in contents.texts(source).items()}
    for name, path in _kept(stored.folder).items():
        payload.lines(name, path)
    run, records = Run.model_validate_json(written["run.json"]), _cleaned(stored, payload)
    seen = inside(run, records)
    for name, text in _derived(run, seen).items():
        payload.text(name, text)
    redactions = payload.redactions
    payload.text("redactions.json", contents.redactions_file(redactions))
    payload.text(crate.NAME, crate.crate(told, run, records, payload.files))
    readme = contents.readme(told, seen.claims, redactions).encode()
    files = bag.bagged(payload.files, readme, contents.bag_info(told))
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
    return Laid(folder, files, _by_kind(payload))


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


def _source(stored: Stored) -> contents.Source:
    box = stored.folder / kept.BOX
    manifest, parts = box / kept.MANIFEST, box / kept.WEIGHTS
    return contents.Source(
        run=stored.run,
        text=(stored.folder / "run.json").read_text("utf-8"),
        records=stored.records,
        environment=environment(stored),
        manifest=read(manifest, Manifest) if manifest.is_file() else None,
        weights=_PARTS.validate_json(parts.read_bytes()) if parts.is_file() else (),
        ddops_version=__version__,
    )


def _derived(run: Run, seen: View) -> dict[str, str]:
    """The report, and its numbers for programs."""
    pages, claims = drawn(seen), derived.claims(seen.groups)
    files = {
        "report/report.html": pages.html,
        "report/report.md": pages.markdown,
        "report/findings.md": findings_of(run, seen),
        "tables.json": derived.tables([entry.record for entry in seen.entries], __version__),
    }
    return files | ({"claims.yaml": claims} if claims else {})


def _kept(folder: Path) -> dict[str, Path]:
    """Where what a bench keeps besides records lies in a bundle."""
    box = folder / kept.BOX
    found = {
        "box-facts.raw.json": box / kept.FACTS,
        "environment/manifest.json": box / kept.MANIFEST,
        **{f"units/{path.name}": path for path in (box / kept.UNITS).glob("*")},
        **{f"logs/{path.name}": path for path in (folder / kept.LOGS).glob("*")},
        **{f"telemetry/{path.name}": path for path in (folder / telemetry.FOLDER).glob("*")},
    }
    return {name: path for name, path in sorted(found.items()) if path.is_file()}


def _by_kind(payload: Payload) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for redaction in payload.redactions:
        kinds[redaction.kind] += redaction.count
    return dict(kinds)

"""What a bundle is, for machines: an RO-Crate 1.2 whose cells are actions of Process Run Crate.

Every date and id is of the run, so that the same run gives the same text. Source of the terms:
https://w3id.org/ro/crate/1.2 and https://w3id.org/ro/wfrun/process/0.5.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ddops.bundle.payload import RECORDS
from ddops.spec.bundle import BundleInfo
from ddops.spec.record import Record
from ddops.spec.run import Run

NAME: Final = "ro-crate-metadata.json"
_PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
_STATUS: Final = "http://schema.org/{}ActionStatus"
_LICENCE: Final = "#licence"
_FORMATS: Final = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".toml": "application/toml",
    ".html": "text/html",
    ".md": "text/markdown",
}
_INPUTS: Final = ("matrix.yaml", "box.yaml", "weights.json", "environment.json")
_DERIVED: Final = (
    "report/report.html",
    "report/report.md",
    "report/findings.md",
    "tables.json",
    "claims.yaml",
)
_PACKAGES: Final = {"ddtree": "ddops"}  # what an engine ships in, when not under its own name
_ABOUT: Final = {
    "run.json": "The matrix, the facts of the box, the sessions, and what served each variant",
    "matrix.yaml": "What was to be measured",
    "box.yaml": "What was served, as an inventory that serves it again",
    "weights.json": "Model and drafter by hash and origin",
    "environment.json": "The Python packages that the engine ran with",
    "environment/sbom.cdx.json": "The same as a CycloneDX bill of materials",
    "environment/pylock.toml": "Those of them whose file is known, as PEP 751 has it",
    "environment/manifest.json": "Every file of the environment that was streamed to the box",
    "tables.json": "The numbers of the report, and what made them",
    "claims.yaml": "What the run shows, with the records that bear it out and how far they differ",
    "redactions.json": "What was taken out of which file",
}


def crate(
    told: BundleInfo, run: Run, records: Mapping[str, Record], files: Mapping[str, Path]
) -> str:
    """`records` by file name, `files` by name below `data/`, which is the crate's root."""
    from rocrate.model import ContextEntity, File
    from rocrate.rocrate import ROCrate

    made = ROCrate(version="1.2")
    for name, path in sorted(files.items()):
        made.add(File(made, dest_path=name, properties=_file(name, path)))
    context = [*_context(told, run), *_actions(told, run, records, files)]
    for entity in context:
        made.add(ContextEntity(made, entity.pop("@id"), properties=entity))
    for key, value in _root(told, run, records).items():
        made.root_dataset[key] = value
    return json.dumps(made.metadata.generate(), indent=1, sort_keys=True) + "\n"


def _root(told: BundleInfo, run: Run, records: Mapping[str, Record]) -> dict[str, Any]:
    about = (
        f"Benchmark of {run.found.model.name} on box {told.box}, matrix {told.matrix}: "
        f"{len(records)} records with every request, what they ran on, and the report"
    )
    root = {
        "name": told.name,
        "description": about,
        "datePublished": told.created,
        "license": {"@id": _LICENCE},
        "conformsTo": {"@id": _PROFILE},
        "mentions": [*({"@id": _action(name)} for name in sorted(records)), {"@id": "#derive"}],
    }
    if run.based_on is not None:
        root["isBasedOn"] = {"@id": f"urn:sha256:{run.based_on.sha256}"}
    return root


def _file(name: str, path: Path) -> dict[str, Any]:
    kind = _FORMATS.get(PurePosixPath(name).suffix, "text/plain")
    said = {"encodingFormat": kind, "contentSize": str(path.stat().st_size), "name": name}
    return {**said, "description": _ABOUT[name]} if name in _ABOUT else said


def _context(told: BundleInfo, run: Run) -> Iterator[dict[str, Any]]:
    yield {
        "@id": _PROFILE,
        "@type": ["CreativeWork", "Profile"],
        "name": "Process Run Crate",
        "version": "0.5",
    }
    yield {
        "@id": _LICENCE,
        "@type": "CreativeWork",
        "name": "not stated",
        "description": "Who publishes the bundle says under which licence it may be used. "
        f"Licence of the prompts: {run.prompts.licence}; of the model: {run.found.model.licence}",
    }
    versions = {session.ddops_version for session in run.sessions} | {told.ddops_version}
    for version in sorted(versions):
        yield _software("ddops", version)
    engines = {(s.engine.name, s.engine.version) for s in run.served.values() if s.engine}
    for name, version in sorted(engines):
        yield _software(name, version)
    if run.based_on is not None:
        yield {
            "@id": f"urn:sha256:{run.based_on.sha256}",
            "@type": "CreativeWork",
            "name": run.based_on.name,
            "description": "The bundle that this one repeats, by the hash of its tag manifest",
        }


def _software(name: str, version: str) -> dict[str, Any]:
    return {
        "@id": f"#{name}-{version}",
        "@type": "SoftwareApplication",
        "name": name,
        "version": version,
        "url": f"pkg:pypi/{_PACKAGES.get(name, name)}@{version}",
    }


def _actions(
    told: BundleInfo, run: Run, records: Mapping[str, Record], files: Mapping[str, Path]
) -> Iterator[dict[str, Any]]:
    for name, record in sorted(records.items()):
        yield _measured(name, record, run, files)
    yield {
        "@id": "#derive",
        "@type": "CreateAction",
        "name": "tables, claims and report",
        "description": "worked out from the records alone, as `ddops bundle verify` does again",
        "instrument": {"@id": f"#ddops-{told.ddops_version}"},
        "object": [{"@id": f"{RECORDS}/{name}"} for name in sorted(records)],
        "result": [{"@id": name} for name in _DERIVED if name in files],
        "endTime": told.created,
        "actionStatus": _STATUS.format("Completed"),
    }


def _measured(name: str, record: Record, run: Run, files: Mapping[str, Path]) -> dict[str, Any]:
    """One attempt at one cell. A red gate is a failure too: its numbers are no result."""
    cell, variant = record.cell.id, record.cell.variant.name
    beside = [
        each for each in sorted(files) if each.startswith((f"logs/{cell}.", f"telemetry/{cell}."))
    ]
    inputs = [each for each in (*_INPUTS, f"units/{variant}.service") if each in files]
    served = run.served.get(variant)
    tools = [f"#ddops-{record.ddops_version}"]
    if served and served.engine:
        tools.append(f"#{served.engine.name}-{served.engine.version}")
    action = {
        "@id": _action(name),
        "@type": "CreateAction",
        "name": f"cell {cell} measured",
        "description": " ".join(record.command),
        "instrument": [{"@id": tool} for tool in tools],
        "object": [{"@id": each} for each in inputs],
        "result": [{"@id": f"{RECORDS}/{name}"}, *({"@id": each} for each in beside)],
        "startTime": record.started_at,
        "actionStatus": _STATUS.format("Completed" if record.ok else "Failed"),
    }
    return action if record.ok else {**action, "error": _error(record)}


def _error(record: Record) -> str:
    if record.failure is not None:
        return f"{record.failure.kind}: {record.failure.message}"
    return "; ".join(f"{gate.name}: {gate.detail}" for gate in record.gates if not gate.green)


def _action(name: str) -> str:
    return f"#{name.removesuffix('.json')}"

"""Claims of a file are checked against the records that the file names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from ddops.analysis.stated import Judged, Source, judge, of_records, of_transcript, unknown
from ddops.errors import SpecError, UsageError
from ddops.flows.evidence import evidence
from ddops.spec.claims import Claims
from ddops.spec.load import read
from ddops.spec.transcript import Transcript


def claims(file: Path) -> tuple[Judged, ...]:
    """Raises `SpecError` where a claim names a record that is not there."""
    if not file.is_file():
        raise UsageError(
            f"there is no file {file}", hint="docs/report.md shows what a file of claims says"
        )
    asked = read(file, Claims)
    where = file.parent / asked.records
    sources = _sources(where)
    missing = unknown(asked.claims, sources)
    if missing:
        longer = [name for name in sources if name.startswith(f"{missing[0]}.")]
        near = longer or difflib.get_close_matches(missing[0], sources, n=1)
        raise SpecError(
            f"{file}: {where} has no record {', '.join(f'`{name}`' for name in missing)}",
            detail=f"it has {', '.join(sources)}",
            hint=f"did you mean `{near[0]}`?" if near else "name one of these",
        )
    return tuple(judge(claim, sources) for claim in asked.claims)


def _sources(where: Path) -> Mapping[str, Source]:
    if where.suffix in (".yaml", ".yml"):
        return of_transcript(read(where, Transcript))
    found = evidence(where)
    strange = {cell: Source({}, f"does not follow: {why}") for cell, why in found.strange.items()}
    return of_records(found.records.values()) | strange

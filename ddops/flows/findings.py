"""A transcript, which has no requests to draw, becomes `findings.md` beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddops.flows.claims import claims
from ddops.flows.report import template
from ddops.host.atomic import write
from ddops.report.findings import Findings
from ddops.report.findings import findings as found_in
from ddops.report.page import render
from ddops.spec.load import read
from ddops.spec.transcript import TRANSCRIPT, Transcript


@dataclass(frozen=True)
class Written:
    markdown: Path
    found: Findings


def is_transcript(folder: Path | None) -> bool:
    return folder is not None and (folder / TRANSCRIPT).is_file()


def findings(folder: Path) -> Written:
    """Of the transcript in `folder` and of the `claims.yaml` beside it."""
    transcript = read(folder / TRANSCRIPT, Transcript)
    found = found_in(folder.resolve().name, transcript, claims(folder / "claims.yaml"))
    path = folder / "findings.md"
    write(path, render("findings.md.j2", template, found=found).encode())
    return Written(path, found)

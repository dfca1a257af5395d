"""A run's records become a page, its text and its findings in `report/` beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddops.analysis.crosscheck import Crosscheck
from ddops.flows.crosscheck import kept
from ddops.flows.evidence import evidence
from ddops.flows.runs import chosen, load
from ddops.host.atomic import write
from ddops.report.page import Page, page, render
from ddops.report.run_findings import Other, run_findings
from ddops.report.view import Entry, View, view
from ddops.spec.record import Record
from ddops.spec.run import Run
from ddops.spec.shipped import shipped


@dataclass(frozen=True)
class Reported:
    html: Path
    markdown: Path
    findings: Path
    view: View


def report(folder: Path | None = None, beside: Sequence[Path] = ()) -> Reported:
    """`folder` is a run; None is the last one under `results/`. `beside`: runs or bundles."""
    others = [Other(str(path), evidence(path)) for path in beside]
    stored = load(chosen(folder))
    records = {f"../{name}": record for name, record in stored.records.items()}
    seen = viewed(stored.run, records, kept(stored))
    pages = drawn(seen)
    html, markdown = (stored.folder / "report" / f"report.{kind}" for kind in ("html", "md"))
    write(html, pages.html.encode())
    write(markdown, pages.markdown.encode())
    findings = html.with_name("findings.md")
    write(findings, findings_of(stored.run, seen, others).encode())
    return Reported(html=html, markdown=markdown, findings=findings, view=seen)


def viewed(run: Run, records: Mapping[str, Record], crosschecks: Sequence[Crosscheck] = ()) -> View:
    """`records` by where they lie, seen from the report."""
    return view(run, [Entry(record, href) for href, record in records.items()], crosschecks)


def drawn(seen: View) -> Page:
    return page(seen, template)


def findings_of(run: Run, seen: View, others: Sequence[Other] = ()) -> str:
    return render("run-findings.md.j2", template, found=run_findings(run, seen, others))


def template(name: str) -> str:
    return (shipped("templates") / "report" / name).read_text("utf-8")

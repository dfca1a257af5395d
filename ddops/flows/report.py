"""A run's records become `report/report.html` and `report/report.md` beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddops.flows.runs import chosen, load
from ddops.host.atomic import write
from ddops.report.page import Page, page
from ddops.report.view import Entry, View, view
from ddops.spec.record import Record
from ddops.spec.run import Run
from ddops.spec.shipped import shipped


@dataclass(frozen=True)
class Reported:
    html: Path
    markdown: Path
    view: View


def report(folder: Path | None = None) -> Reported:
    """`folder` is a run; None is the last one under `results/`."""
    stored = load(chosen(folder))
    seen = viewed(stored.run, {f"../{name}": record for name, record in stored.records.items()})
    pages = drawn(seen)
    html, markdown = (stored.folder / "report" / f"report.{kind}" for kind in ("html", "md"))
    write(html, pages.html.encode())
    write(markdown, pages.markdown.encode())
    return Reported(html=html, markdown=markdown, view=seen)


def viewed(run: Run, records: Mapping[str, Record]) -> View:
    """`records` by where they lie, seen from the report."""
    return view(run, [Entry(record, href) for href, record in records.items()])


def drawn(seen: View) -> Page:
    return page(seen, template)


def template(name: str) -> str:
    return (shipped("templates") / "report" / name).read_text("utf-8")

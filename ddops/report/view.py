"""What a report says, as values: every number with the record it comes from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddops.analysis.claims import Claim, claims
from ddops.analysis.compare import verdict
from ddops.analysis.cost.breakdown import Breakdown, breakdown
from ddops.analysis.crosscheck import Crosscheck
from ddops.analysis.repeats import Group, groups
from ddops.analysis.steady import steadiness
from ddops.report.power import Power, power
from ddops.report.rows import ABSENT, COLUMNS, Value, row
from ddops.report.setup import moment, setup
from ddops.spec.record import Record
from ddops.spec.run import Run


@dataclass(frozen=True)
class Entry:
    """A record and where it lies, seen from the report."""

    record: Record
    href: str

    @property
    def anchor(self) -> str:
        return f"cell-{self.record.cell.id}"

    @property
    def verdict(self) -> str:
        return verdict(self.record)

    @property
    def excerpt(self) -> str:
        """The record without its traces: those are what the file is for.

        Without its numbers too where it is no measurement: nobody is to quote them from here.
        """
        shown = self.record.model_dump(mode="json", exclude={"traces"})
        if not self.record.ok:
            kept = f"not shown: the cell {self.verdict}; they lie in the file"
            shown |= {key: kept for key in ("metrics", "telemetry") if shown.get(key)}
        shown["traces"] = f"{len(self.record.traces)} requests, in the file"
        return json.dumps(shown, indent=1, ensure_ascii=False)


@dataclass(frozen=True)
class View:
    title: str
    subtitle: str
    tally: Mapping[str, int]  # cells by ok, failed, invalid, not measured
    claims: tuple[Claim, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    spread: str
    groups: tuple[Group, ...]
    breakdown: Breakdown | None  # of the median repeats' steps
    power: Power | None  # None: nothing was sampled beside the cells
    entries: tuple[Entry, ...]  # the last attempt at each cell
    earlier: tuple[Entry, ...]  # attempts that were tried again
    setup: tuple[tuple[str, str], ...]
    definitions: tuple[tuple[str, str], ...]
    crosschecks: tuple[Crosscheck, ...]  # what other load clients measured of the same cells

    @property
    def troubled(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if not entry.record.ok)

    def href(self, cell: str) -> str:
        return next(entry.href for entry in self.entries if entry.record.cell.id == cell)


def view(run: Run, entries: Sequence[Entry], crosschecks: Sequence[Crosscheck] = ()) -> View:
    """`entries` in the order they were written: a later attempt at a cell replaces an earlier."""
    last = {entry.record.cell.id: entry for entry in entries}
    kept = sorted(last.values(), key=lambda entry: _place(run, entry.record))
    records = [entry.record for entry in kept]
    grouped = groups(run.matrix, records)
    rows = [row(group) for group in grouped]
    told = [place for place in range(len(COLUMNS)) if any(r[place].text != ABSENT for r in rows)]
    return View(
        title=f"{run.matrix.name} on {run.box}",
        subtitle=_subtitle(run),
        tally=_tally(grouped),
        claims=(*claims(grouped), *_steady(records)),
        columns=tuple(COLUMNS[place] for place in told),
        rows=tuple(tuple(each[place] for place in told) for each in rows),
        spread=_spread(run, grouped),
        groups=grouped,
        breakdown=breakdown(run, [group.median for group in grouped if group.median]),
        power=power(grouped),
        entries=tuple(kept),
        earlier=tuple(entry for entry in entries if entry not in kept),
        setup=setup(run, records),
        definitions=DEFINITIONS,
        crosschecks=tuple(crosschecks),
    )


DEFINITIONS = (
    ("tok/s", "completion tokens of whole answers / length of the measured window"),
    ("speed-up", "tok/s of the row's record / tok/s of the ar row's record at the same C"),
    ("accept", "1 + accepted drafts / verify steps, counter differences over the window"),
    ("step", "TPOT p50 x accept: the time of one target step, drafting included"),
    ("TTFT", "first token - sent, at the client"),
    ("TPOT", "(last token - first token) / (tokens - 1), per request"),
    (
        "C",
        "concurrency: requests the client keeps in flight; 2/s: requests sent a second, "
        "whether answered or not",
    ),
    ("J/token", "energy of the GPUs that serve, else of the CPU packages / tokens of the window"),
    ("GPU busy", "share of the window in which some kernel ran, by the driver's word"),
    ("throttled", "share of the samples in which power or heat held the GPU back"),
    ("limited by", "the bottleneck; its reason is below. Latency-bound: short kernels in a row"),
    ("budget", "nodes of the draft tree besides the root; ddtree-b8 has budget 8"),
    ("coding", "programs asked for after the window that pass their tests, one answer each"),
    ("invalid", "a correctness gate is red: the speed is not shown, and nothing is made from it"),
)


def _steady(records: Sequence[Record]) -> tuple[Claim, ...]:
    found = steadiness(records)
    if found is None:
        return ()
    return (Claim(found.text, (found.first.cell.id, found.again.cell.id)),)


def _subtitle(run: Run) -> str:
    engines = {f"{s.engine.name} {s.engine.version}" for s in run.served.values() if s.engine}
    began = moment(run.sessions[0].started_at) if run.sessions else "at an unknown time"
    return " · ".join([run.found.model.name, *sorted(engines), f"measured {began}"])


def _tally(grouped: Sequence[Group]) -> dict[str, int]:
    said = [verdict(record).partition(":")[0] for group in grouped for record in group.records]
    missing = sum(group.asked - len(group.records) for group in grouped)
    counted = {word: said.count(word) for word in ("ok", "failed", "invalid")}
    return {word: count for word, count in (counted | {"not measured": missing}).items() if count}


def _spread(run: Run, grouped: Sequence[Group]) -> str:
    if run.matrix.repeats == 1:
        return (
            "One repeat a cell: how much a second run would differ is not known. "
            "TTFT and TPOT are p50 and p99 over the requests of the cell."
        )
    widths = [
        (max(group.throughputs) - min(group.throughputs)) / max(group.throughputs)
        for group in grouped
        if len(group.good) > 1
    ]
    worst = f"{max(widths):.1%}" if widths else "unknown"
    return (
        f"{run.matrix.repeats} repeats a cell: each row is the repeat with the median tok/s, its "
        f"range over the repeats beside it; widest range {worst} of the highest. "
        "TTFT and TPOT are p50 and p99 over the requests of that repeat."
    )


def _place(run: Run, record: Record) -> tuple[int, int, int]:
    paces = run.matrix.paces
    names = [variant.name for variant in run.matrix.variants]
    name = record.cell.variant.name
    place = names.index(name) if name in names else len(names)
    pace = record.cell.pace
    return place, paces.index(pace) if pace in paces else len(paces), record.cell.repeat

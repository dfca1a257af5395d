"""Walk a matrix: switch the service, measure its cells, write each down, put the box back.

What is measured stays measured: a second run does only the cells that have no good record.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ddops.analysis.compare import Row, rows
from ddops.analysis.effort import Effort, efforts
from ddops.analysis.steady import Steadiness, steadiness
from ddops.bench import expand
from ddops.bench.journal import Journal
from ddops.bench.prompts import load_prompts
from ddops.errors import BenchError, ServiceError, UsageError
from ddops.facts.look import look
from ddops.flows import kept
from ddops.flows.advise import advised, ask
from ddops.flows.cell import Course, Stage, now, refused, run_cell
from ddops.flows.coding import problems
from ddops.flows.course import Wanted, begin, staged, terminable
from ddops.flows.course import restore as restore
from ddops.flows.earlier import speeds
from ddops.flows.runs import environment, load
from ddops.flows.service import current
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.deployment import Deployment
from ddops.spec.grid import Grid
from ddops.spec.load import read
from ddops.spec.matrix import Cell, Matrix, Variant
from ddops.spec.record import Record, Trace

_SHIPPED = Path(__file__).parent.parent / "bench" / "matrices"
DEFAULT = "local"


@dataclass(frozen=True)
class Plan(Wanted):
    """What a bench would do."""

    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]  # those without a good record
    estimate: expand.Estimate  # of those
    broken: tuple[str, ...]  # variants that break a rule, and why


@dataclass(frozen=True)
class Benched:
    folder: Path
    records: tuple[Record, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            row
            for row, record in zip(rows(self.records), self.records, strict=True)
            if not record.cell.again
        )

    @property
    def efforts(self) -> tuple[Effort, ...]:
        return efforts([record for record in self.records if not record.cell.again])

    @property
    def steadiness(self) -> Steadiness | None:
        return steadiness(self.records)


def load_matrix(wanted: str | None) -> Matrix:
    """A shipped matrix by name (None: the default), else the YAML file at that path."""
    shipped = _SHIPPED / f"{wanted or DEFAULT}.yaml"
    return read(shipped if shipped.is_file() else Path(wanted or DEFAULT), Grid).matrix()


def plan(
    site: Site,
    matrix: Matrix,
    out: Path,
    patterns: Sequence[str] = (),
    base: Deployment | None = None,
) -> Plan:
    """`base`: what the variants change; None: what is deployed."""
    base = base or current(site.host, site.box)
    if base is None:
        raise BenchError(
            f"nothing is deployed on box `{site.box.name}`", hint=f"`ddops deploy {site.box.name}`"
        )
    for variant in matrix.variants:
        expand.configured(base, variant)
    asked = problems(matrix)
    cells = expand.chosen(expand.cells(matrix), patterns)
    journal = Journal.of(out, matrix)
    missing = tuple(cell for cell in cells if journal.record(cell) is None)
    planned = Plan(
        matrix=matrix,
        prompts=load_prompts(matrix.load, matrix.trace),
        base=base,
        journal=journal,
        cells=cells,
        missing=missing,
        estimate=expand.estimate(
            matrix,
            missing,
            speeds(out, site.box.name, matrix.load),
            problems=len(asked.problems) if asked else 0,
        ),
        broken=_broken(site, base, tuple(dict.fromkeys(cell.variant for cell in missing))),
    )
    _check_same(planned, site)
    return planned


def warnings(planned: Plan, site: Site) -> list[str]:
    """What the user should know before the numbers, because it bends them."""
    limit, found = planned.base.limits.max_running_requests, []
    if (most := max(planned.matrix.concurrency, default=0)) > limit:
        found.append(f"at C={most} requests queue: the engine runs {limit} at once")
    if planned.base != site.box.deployment:
        found.append("the inventory has changed since the deploy; what is deployed is measured")
    return [*found, *planned.broken]


def bench(
    site: Site,
    planned: Plan,
    command: tuple[str, ...],
    voice: Voice,
    *,
    home: Site | None = None,
) -> Benched:
    """Measure what is missing; the good record of every cell, or its last failure.

    The caller holds the box's lock. The box serves what it served before, however this ends;
    only after a `kill -9` it does not, and then the next run or `restore` sees to it. `home`: the
    box as it is put back, where it is measured in another environment.
    """
    journal = planned.journal
    with journal.locked(), terminable():
        try:
            if planned.missing:
                _walk(site, planned, begin(site, planned, command), voice)
                environment(load(journal.folder), site.host)
        finally:
            restore(home or site, journal.folder.parent, voice)
        latest = [journal.latest(cell) for cell in planned.cells]
    return Benched(journal.folder, tuple(record for record in latest if record is not None))


def check(benched: Benched) -> None:
    if not any(record.ok for record in benched.records):
        raise BenchError(
            "no cell of the matrix has a good record",
            hint=f"the reasons are in {benched.folder}/*.failure.json; then run it again",
        )


def _broken(site: Site, base: Deployment, variants: Sequence[Variant]) -> tuple[str, ...]:
    """A rule may be out of date, so a variant that breaks one is measured all the same."""
    if not variants:
        return ()
    asked = ask(site, base, look(site.host, site.box))
    return tuple(
        f"variant `{variant.name}` breaks rule `{one.rule}`: {one.why}; it is measured all the same"
        for variant in variants
        for one in advised(site, expand.configured(base, variant), asked).advice.broken
    )


def _walk(site: Site, planned: Plan, course: Course, voice: Voice) -> None:
    for variant, cells in groupby(planned.missing, key=lambda cell: cell.variant):
        deployment = expand.configured(planned.base, variant)
        stage: Stage | None = None
        for cell in cells:
            started_at = now()
            _rest(planned, cell)
            try:
                stage = stage or staged(course, planned.journal, variant, deployment, voice)
            except ServiceError as error:
                record = refused(course, cell, deployment, started_at, error)
            else:
                with kept.log(planned.journal.folder, site, cell.id):
                    record = run_cell(course, stage, cell, _baseline(planned, cell), voice)
            planned.journal.add(record)
            _tell(record, voice)
            if record.failure is not None:
                stage = None  # what a failure leaves behind is no ground for the next cell


def _rest(planned: Plan, cell: Cell) -> None:
    """A box that has cooled down measures the last cell like the first."""
    if cell != planned.missing[0]:
        time.sleep(planned.matrix.cooldown_s)


def _baseline(planned: Plan, cell: Cell) -> tuple[Trace, ...] | None:
    base = expand.baseline(cell, planned.cells)
    record = planned.journal.record(base) if base else None
    return record.traces if record else None


def _tell(record: Record, voice: Voice) -> None:
    red = [gate for gate in record.gates if not gate.green]
    if record.failure is not None:
        voice.warn(f"{record.cell.id} failed: {record.failure.kind}: {record.failure.message}")
    for warning in record.warnings:
        voice.warn(f"{record.cell.id}: {warning}")
    for gate in red:
        voice.warn(f"{record.cell.id} is invalid: {gate.name}: {gate.detail}")


def _check_same(planned: Plan, site: Site) -> None:
    """Records of one folder must be comparable: same box, same deployment, same prompts."""
    run = planned.journal.run
    if run is None:
        return
    was = {
        "box": (run.box, site.box.name),
        "deployment": (run.found, planned.base),
        "prompts": (run.prompts.sha256, planned.prompts.sha256),
        "times of sending": (run.prompts.trace_sha256, planned.prompts.trace_sha256),
    }
    changed = [what for what, (then, today) in was.items() if then != today]
    if changed:
        raise UsageError(
            f"{planned.journal.folder} was measured with another {' and '.join(changed)}",
            hint="pass another folder with `--out`",
        )

"""The findings of a run: algorithm, results, fixes, other boxes, bottleneck, roadmap. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from ddops.analysis.claims import Claim
from ddops.analysis.compare import verdict
from ddops.analysis.cost.breakdown import Apart, Breakdown
from ddops.analysis.lessons import method, roadmap
from ddops.analysis.pairs import Evidence, compare
from ddops.analysis.repeats import Group, groups, step_s
from ddops.analysis.signs import bottleneck
from ddops.analysis.steady import steadiness
from ddops.report.rows import ABSENT, Value, number
from ddops.report.view import View
from ddops.spec.deployment import Weights
from ddops.spec.record import Record
from ddops.spec.run import Run


@dataclass(frozen=True)
class Other:
    """A run to hold beside: `name` is where it lies."""

    name: str
    evidence: Evidence


@dataclass(frozen=True)
class Beside:
    """One other run: why its speeds are other quantities, what else differs, and the figures."""

    name: str
    box: str
    unlike: tuple[str, ...]
    differences: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class RunFindings:
    view: View
    served: tuple[str, ...]
    method: tuple[Claim, ...]
    steps: tuple[tuple[Value, ...], ...]  # variant, accept, tok/s, ms a step, over a step of `ar`
    troubles: tuple[Claim, ...]
    silenced: tuple[str, ...]  # rules that the deployment overrides
    beside: tuple[Beside, ...]
    bottleneck: tuple[Claim, ...]
    roadmap: tuple[Claim, ...]


def run_findings(run: Run, seen: View, others: Sequence[Other]) -> RunFindings:
    records = [entry.record for entry in seen.entries]
    own = Evidence(run, {record.cell.id: record for record in records}, {})
    looked = steadiness(records)
    return RunFindings(
        view=seen,
        served=tuple(_served(run)),
        method=method(seen.groups),
        steps=tuple(_steps(seen.groups)),
        troubles=tuple(_troubles([entry.record for entry in (*seen.earlier, *seen.troubled)])),
        silenced=tuple(str(rule) for rule in run.found.overrides),
        beside=tuple(_beside(own, seen.groups, other) for other in others),
        bottleneck=tuple(_limits(seen.groups, seen.breakdown)),
        roadmap=roadmap(run.matrix, seen.groups, seen.breakdown, looked),
    )


def _served(run: Run) -> Iterator[str]:
    found = run.found
    yield f"target {found.model.name}, served by {found.engine}"
    drafter = found.decoding.drafter
    if drafter is not None:
        yield f"drafter {drafter.source if isinstance(drafter, Weights) else drafter}"
    for variant in run.matrix.variants:
        tree = f", {variant.budget} nodes besides the root" if variant.budget else ""
        adaptive = " at most, fewer where fewer pay" if variant.adaptive else ""
        yield f"{variant.name}: {_MODES[variant.mode]}{tree}{adaptive}"


_MODES = {
    "ar": "one token a step",
    "chain": "a draft without branches, verified in one step",
    "ddtree": "the most probable branches of a draft as a tree, verified in one step",
}


def _steps(grouped: Sequence[Group]) -> Iterator[tuple[Value, ...]]:
    """Of one pace a table, in the order of the matrix."""
    bases = {g.pace: _step_of(g) for g in grouped if g.variant.mode == "ar"}
    for group in grouped:
        median, step = group.median, _step_of(group)
        if median is None or median.metrics is None or step is None:
            continue
        ids, base = (median.cell.id,), bases.get(group.pace)
        yield (
            Value(group.variant.name, kind="name"),
            Value(str(group.pace)),
            Value(f"{median.metrics.accept or 1:.2f}", ids),
            Value(number(median.metrics.output_tok_s), ids),
            Value(f"{1e3 * step:.2f}", ids),
            Value(f"{step / base:.2f}" if base else ABSENT),
        )


def _step_of(group: Group) -> float | None:
    return step_s(group.median.metrics) if group.median and group.median.metrics else None


def _troubles(records: Sequence[Record]) -> Iterator[Claim]:
    for record in records:
        if record.failure is not None:
            why = record.failure.message.splitlines()[0] if record.failure.message else ""
        else:
            why = "; ".join(gate.detail for gate in record.gates if not gate.green)
        yield Claim(f"{record.cell.id} {verdict(record)}: {why}", (record.cell.id,))


def _limits(grouped: Sequence[Group], apart: Breakdown | None) -> Iterator[Claim]:
    """The verdict of what was sampled beside a cell; without it, what its step is made of."""
    steps = {one.cell: one for one in apart.steps} if apart else {}
    for group in grouped:
        if group.median is None:
            continue
        cell, found = group.median.cell.id, bottleneck(group.median)
        step = steps.get(cell)
        if found is not None:
            text = f"{group.pace}, {group.variant.name}: {found.label}. {found.why}"
            yield Claim(text, (cell,))
        elif step is not None:
            yield Claim(f"{group.pace}, {group.variant.name}: {_made_of(step)}", (cell,))


def _made_of(step: Apart) -> str:
    shares = sorted(step.parts.items(), key=itemgetter(1), reverse=True)
    whole = sum(step.parts.values())
    told = ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in shares if seconds > 0)
    return f"{1e3 * step.measured_s:.2f} ms a step; by the fit to all cells {told}"


def _beside(own: Evidence, grouped: Sequence[Group], other: Other) -> Beside:
    """A ratio over `ar` belongs to one box; ratios of two boxes are for `ddops compare`."""
    run = other.evidence.run
    found = compare(own, other.evidence, {})
    theirs = groups(run.matrix, list(other.evidence.records.values()))
    named = {(group.variant.name, group.pace): group for group in theirs}
    pairs = ((g, named.get((g.variant.name, g.pace))) for g in grouped)
    return Beside(
        name=other.name,
        box=run.box,
        unlike=found.reasons,
        differences=tuple(f"{one.what}: {one.a} here, {one.b} there" for one in found.differences),
        rows=tuple(
            (mine.variant.name, str(mine.pace), *_figures(mine), *_figures(match))
            for mine, match in pairs
            if match is not None and mine.median and match.median
        ),
    )


def _figures(group: Group) -> tuple[str, str, str]:
    """tok/s, over `ar`, accept."""
    assert group.median is not None and group.median.metrics is not None, "only measured groups"
    metrics = group.median.metrics
    return (
        number(metrics.output_tok_s),
        f"{group.speedup.value:.2f}x" if group.speedup else ABSENT,
        f"{metrics.accept:.2f}" if metrics.accept else ABSENT,
    )

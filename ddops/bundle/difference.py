"""Two bundles side by side: what was wanted, where it ran, with what, and what came out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ddops.analysis import compare, drift
from ddops.analysis.compare import Row
from ddops.bundle.recheck import Opened
from ddops.spec.deployment import Deployment
from ddops.spec.drift import Drift
from ddops.spec.record import Record
from ddops.spec.run import Run

MOMENTARY: Final = frozenset({"memory_available", "disk_free"})
"""Facts that are never the same twice."""

_FIGURES: Final[tuple[tuple[str, str, Callable[[Row], float | None]], ...]] = (
    ("output tok/s", "{:.1f}", lambda row: row.output_tok_s),
    ("TTFT p50, s", "{:.3f}", lambda row: row.ttft_p50_s),
    ("TPOT p50, s", "{:.4f}", lambda row: row.tpot_p50_s),
    ("accept", "{:.2f}", lambda row: row.accept),
)
_ABSENT: Final = "not measured"


def differences(one: Opened, other: Opened) -> Iterator[Drift]:
    """Both must be whole: without findings."""
    assert one.info and other.info and one.run and other.run, "what is missing is a finding"
    versions = (
        {"version": each.ddops_version, "commit": each.commit} for each in (one.info, other.info)
    )
    yield from drift.keys("ddops", *versions)
    yield from drift.keys("matrix", *(_matrix(run) for run in (one.run, other.run)))
    yield from drift.keys("deployment", *(_deployment(run.found) for run in (one.run, other.run)))
    yield from drift.keys("model", *(_models(run.found) for run in (one.run, other.run)))
    yield from drift.keys("box", *(_facts(run) for run in (one.run, other.run)))
    yield from drift.keys("engine", *(_engines(run) for run in (one.run, other.run)))
    if one.environment and other.environment:
        yield from drift.packages(one.environment, other.environment)
    yield from _results(one.records, other.records)


def _matrix(run: Run) -> dict[str, Any]:
    """Its variants by name: their order says little."""
    variants = {each.name: each.model_dump(exclude={"name"}) for each in run.matrix.variants}
    return {**run.matrix.model_dump(), "variants": variants}


def _deployment(wish: Deployment) -> dict[str, Any]:
    return wish.model_dump(exclude={"model": True, "decoding": {"drafter"}})


def _models(wish: Deployment) -> dict[str, Any]:
    drafter = wish.decoding.model_dump(include={"drafter"})
    return {**wish.model.model_dump(), **drafter}


def _facts(run: Run) -> dict[str, Any]:
    system = run.box_facts.get("system")
    if not isinstance(system, dict):
        return run.box_facts
    lasting = {key: value for key, value in system.items() if key not in MOMENTARY}
    return {**run.box_facts, "system": lasting}


def _engines(run: Run) -> dict[str, Any]:
    """All variants ran on one engine, unless it was changed in between."""
    seen = {f"{s.engine.name} {s.engine.version}" for s in run.served.values() if s.engine}
    return {"version": ", ".join(sorted(seen))}


def _results(one: Mapping[str, Record], other: Mapping[str, Record]) -> Iterator[Drift]:
    """Cell by cell, the last record of each; a figure that is equal is not told."""
    old, new = _rows(one), _rows(other)
    for cell in sorted({*old, *new}):
        a, b = old.get(cell), new.get(cell)
        verdicts = [row.verdict if row else _ABSENT for row in (a, b)]
        if verdicts[0] != verdicts[1]:
            yield _result(cell, *verdicts)
        for name, form, figure in _FIGURES if a and b else ():
            was, now = (figure(row) for row in (a, b) if row)
            if was != now and was is not None and now is not None:
                change = f" ({now / was - 1:+.1%})" if was else ""
                yield _result(f"{cell} {name}", form.format(was), form.format(now) + change)


def _rows(records: Mapping[str, Record]) -> dict[str, Row]:
    ordered = sorted(records.values(), key=lambda record: record.started_at)
    return {row.cell: row for row in compare.rows(ordered)}


def _result(what: str, wanted: str, there: str) -> Drift:
    return Drift(subject="result", what=what, wanted=wanted, there=there)

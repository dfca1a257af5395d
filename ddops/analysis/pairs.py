"""Two runs side by side, paired cell by cell: what may be compared, and what then comes out.

Pure. No ratio without its interval, and none over what was not measured alike: other prompts,
another load, another model, another definition of the numbers, a failure or a red gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Final, Literal

from ddops.analysis import drift
from ddops.analysis.compare import verdict
from ddops.analysis.interval import Effect, effect
from ddops.spec.matrix import Pace
from ddops.spec.record import Metrics, Record, Trace
from ddops.spec.run import Run

Timing = Callable[[Trace], float | None]
Verdict = Literal["better", "worse", "better once", "worse once", "not settled", "not known"]


@dataclass(frozen=True)
class Evidence:
    """A run and its records by cell id, the last attempt at each."""

    run: Run
    records: Mapping[str, Record]
    strange: Mapping[str, str]  # cells whose numbers do not follow from their traces, and why


@dataclass(frozen=True)
class Line:
    """One metric of one cell; `effect` is of B over A, None where there is but one pair."""

    cell: str
    metric: str
    a: float  # geometric mean over the pairs
    b: float
    effect: Effect | None
    over: str  # what a pair is: `3 repeats`, `12 requests`
    verdict: Verdict  # of B; `once`: over one repeat, so a second run may say otherwise


@dataclass(frozen=True)
class Refused:
    cell: str
    reason: str


@dataclass(frozen=True)
class Difference:
    """What is not the same on both sides, so what a line may come from."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    reasons: tuple[str, ...]  # why nothing at all is compared
    differences: tuple[Difference, ...]
    lines: tuple[Line, ...]
    refused: tuple[Refused, ...]


def compare(a: Evidence, b: Evidence, timings: Mapping[str, Timing]) -> Comparison:
    """B against A. `timings` are times of one request, by the name of the metric."""
    reasons, differences = tuple(_unlike(a.run, b.run)), tuple(_differences(a.run, b.run))
    lines: list[Line] = []
    refused: list[Refused] = []
    for name, pace in _cells(a.run, b.run) if not reasons else ():
        cell = f"{name}.{pace.rung}"
        ours, theirs = _repeats(a, name, pace), _repeats(b, name, pace)
        reason = _wrong("A", a, ours) or _wrong("B", b, theirs) or _other(ours, theirs)
        if reason is not None:
            refused.append(Refused(cell, reason))
        else:
            both = [(ours[repeat], theirs[repeat]) for repeat in ours if repeat in theirs]
            lines += _lines(cell, both, timings)
    return Comparison(reasons, differences, tuple(lines), tuple(refused))


def _unlike(a: Run, b: Run) -> Iterator[str]:
    """What makes every number of one run another quantity than that of the other."""
    if a.prompts.sha256 != b.prompts.sha256:
        digests = f"sha256 {a.prompts.sha256[:12]} and {b.prompts.sha256[:12]}"
        yield f"other prompts: `{a.prompts.id}` and `{b.prompts.id}`, {digests}"
    mine, other = a.matrix.load.model_dump(), b.matrix.load.model_dump()
    for key in dict.fromkeys([*mine, *other]):
        ours, theirs = mine.get(key), other.get(key)
        if ours != theirs and key not in _NO_LOAD:
            yield f"another load: `{key}` {ours} and {theirs}"
    if a.prompts.trace_sha256 != b.prompts.trace_sha256:
        yield "another load: requests are sent at the times of another trace"
    model, another = a.found.model.weights, b.found.model.weights
    known = model.sha256 and another.sha256
    if (model.sha256 != another.sha256) if known else (model.source != another.source):
        yield f"another model: {model.source} and {another.source}"


def _differences(a: Run, b: Run) -> Iterator[Difference]:
    if a.box != b.box:
        yield Difference("box", a.box, b.box)
    if a.box_facts_sha256 != b.box_facts_sha256:
        yield Difference("facts of the box", a.box_facts_sha256[:12], b.box_facts_sha256[:12])
    for what, of in (("engine", _engines), ("ddops", _measured_by)):
        if of(a) != of(b):
            yield Difference(what, of(a), of(b))
    for one in drift.deployment(a.found, b.found):
        yield Difference(one.what, one.wanted, one.there)


def _engines(run: Run) -> str:
    seen = {f"{s.engine.name} {s.engine.version}" for s in run.served.values() if s.engine}
    return ", ".join(sorted(seen)) or "unknown"


def _measured_by(run: Run) -> str:
    seen = {f"{session.ddops_version} {session.commit or ''}".strip() for session in run.sessions}
    return ", ".join(sorted(seen)) or "unknown"


def _cells(a: Run, b: Run) -> list[tuple[str, Pace]]:
    """Every variant at every pace that either run asks for, in their order."""
    matrices = (a.matrix, b.matrix)
    asked = [(v.name, p) for of in matrices for v in of.variants for p in of.ladder(v)]
    return list(dict.fromkeys(asked))


def _repeats(side: Evidence, name: str, pace: Pace) -> dict[int, Record]:
    own = [
        record
        for record in side.records.values()
        if (record.cell.variant.name, record.cell.pace) == (name, pace) and not record.cell.again
    ]
    return {record.cell.repeat: record for record in sorted(own, key=lambda r: r.cell.repeat)}


def _wrong(label: str, side: Evidence, repeats: Mapping[int, Record]) -> str | None:
    """A repeat that is no measurement: those that are left would be the survivors."""
    if not repeats:
        return f"not measured in {label}"
    for repeat, record in repeats.items():
        said = verdict(record)
        if said != "ok" or record.metrics is None:
            return f"repeat {repeat} of {label} {said}"
        if (reason := side.strange.get(record.cell.id)) is not None:
            return f"repeat {repeat} of {label} is by another definition, or was changed: {reason}"
    return None


def _other(a: Mapping[int, Record], b: Mapping[int, Record]) -> str | None:
    if next(iter(a.values())).cell.variant != next(iter(b.values())).cell.variant:
        return "the variant of this name is another configuration in B"
    if len({record.prompts_sha256 for record in (*a.values(), *b.values())}) > 1:
        return "a repeat was measured with other prompts"
    return None if a.keys() & b.keys() else "no repeat was measured in both"


def _lines(
    cell: str, both: Sequence[tuple[Record, Record]], timings: Mapping[str, Timing]
) -> Iterator[Line]:
    for metric, of in _COUNTED.items():
        counted = [(of(_metrics(a)), of(_metrics(b))) for a, b in both]
        if pairs := _positive(counted):
            yield _line(cell, metric, pairs, _plural(len(pairs), "repeat"), higher=True)
    for metric, timing in timings.items():
        requests = [_requests(a, b, timing) for a, b in both]
        if all(requests):
            yield _timed(cell, metric, requests)


def _timed(cell: str, metric: str, requests: Sequence[Sequence[tuple[float, float]]]) -> Line:
    """Requests of one repeat share its fortune: where there are several, each is one pair."""
    if len(requests) == 1:
        over = f"{_plural(len(requests[0]), 'request')} of one repeat"
        line = _line(cell, metric, requests[0], over, higher=False)
        return replace(line, verdict=_ONCE.get(line.verdict, line.verdict))
    means = [
        (geometric_mean([a for a, _ in each]), geometric_mean([b for _, b in each]))
        for each in requests
    ]
    return _line(cell, metric, means, _plural(len(means), "repeat"), higher=False)


def _line(
    cell: str, metric: str, pairs: Sequence[tuple[float, float]], over: str, *, higher: bool
) -> Line:
    found = effect([b / a for a, b in pairs])
    a, b = (geometric_mean(side) for side in zip(*pairs, strict=True))
    return Line(cell, metric, a, b, found, over, _said(found, higher=higher))


def _said(found: Effect | None, *, higher: bool) -> Verdict:
    """`higher`: more is better."""
    if found is None:
        return "not known"
    if not found.settled:
        return "not settled"
    return "better" if (found.ratio > 1) == higher else "worse"


def _requests(a: Record, b: Record, timing: Timing) -> list[tuple[float, float]]:
    """The same prompt on both sides; where it was sent several times, in the order sent."""
    mine, other = _by_prompt(a, timing), _by_prompt(b, timing)
    return _positive([(mine[key], other[key]) for key in mine if key in other])


def _by_prompt(record: Record, timing: Timing) -> dict[tuple[str, int], float | None]:
    seen: Counter[str] = Counter()
    found = {}
    for trace in sorted(record.traces, key=lambda trace: trace.sent):
        seen[trace.prompt] += 1
        found[trace.prompt, seen[trace.prompt]] = timing(trace)
    return found


def _positive(pairs: Sequence[tuple[float | None, float | None]]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in pairs if a is not None and b is not None and min(a, b) > 0]


def _metrics(record: Record) -> Metrics:
    assert record.metrics is not None, "a cell without metrics was refused"
    return record.metrics


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


_COUNTED: Final[Mapping[str, Callable[[Metrics], float | None]]] = {
    "tok/s": lambda metrics: metrics.output_tok_s,
    "accept": lambda metrics: metrics.accept,
}
_NO_LOAD: Final = ("prompts", "licence", "slo")  # of the prompts only their hash
_ONCE: Final[Mapping[Verdict, Verdict]] = {"better": "better once", "worse": "worse once"}

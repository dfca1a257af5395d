"""A cell of ours and what another client measured of the same load, figure by figure. Pure.

Two clients agree when a figure differs by 3 % or less. Where it differs more, what the other one
defines otherwise is said, and if nothing is, that too. That a definition is another does not prove
that all of the difference comes from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ddops.spec.foreign import Foreign, Stated
from ddops.spec.record import Metrics, Record, Spread
from ddops.spec.tool import Tool

AGREED: Final = 0.03
_SAME_LOAD: Final = 0.01  # of the tokens of an answer
_KEPT: Final = 0.95  # of the requests in flight; a client that is slow itself has fewer


@dataclass(frozen=True)
class Line:
    metric: str
    ours: float
    theirs: float
    note: str  # what they define otherwise; empty where nothing is

    @property
    def difference(self) -> float:
        """Theirs over ours, less 1."""
        return self.theirs / self.ours - 1

    @property
    def verdict(self) -> str:
        if abs(self.difference) <= AGREED:
            return "agrees"
        if self.note:
            return f"defined otherwise: {self.note}"
        return "differs, and no definition says why"


@dataclass(frozen=True)
class Crosscheck:
    cell: str
    result: Foreign
    lines: tuple[Line, ...]
    otherwise: tuple[str, ...]  # what was not the same load

    @property
    def client(self) -> str:
        return f"{self.result.tool} {self.result.tool_version or '(version not stated)'}"


def crosscheck(record: Record, result: Foreign) -> Crosscheck:
    """`record` is good; of figures that either side lacks there is no line."""
    assert record.metrics is not None, "a good record has metrics"
    lines = tuple(_lines(record.metrics, result))
    return Crosscheck(record.cell.id, result, lines, tuple(_otherwise(record, result)))


def _lines(ours: Metrics, theirs: Foreign) -> Iterator[Line]:
    notes = NOTES[theirs.tool]
    figures = {
        "tok/s": (ours.output_tok_s, theirs.output_tok_s),
        "req/s": (ours.requests_s, theirs.requests_s),
        "TTFT p50 ms": _p50(ours.ttft_s, theirs.ttft_s),
        "TPOT p50 ms": _p50(ours.tpot_s, theirs.tpot_s),
        "ITL p50 ms": _p50(ours.itl_s, theirs.itl_s),
        "ITL mean ms": _mean(ours.itl_s, theirs.itl_s),
        "e2e p50 ms": _p50(ours.e2e_s, theirs.e2e_s),
        "in flight": (ours.concurrency_achieved, theirs.concurrency_achieved),
        "accept": (ours.accept, theirs.accept),
    }
    for metric, (mine, other) in figures.items():
        if mine and other is not None:
            yield Line(metric, mine, other, notes.get(metric.partition(" ")[0], ""))


def _p50(ours: Spread | None, theirs: Stated) -> tuple[float | None, float | None]:
    return _both(ours.p50 if ours else None, theirs.p50)


def _mean(ours: Spread | None, theirs: Stated) -> tuple[float | None, float | None]:
    return _both(ours.mean if ours else None, theirs.mean)


def _both(ours: float | None, theirs: float | None) -> tuple[float | None, float | None]:
    """Seconds to milliseconds."""
    return (1000 * ours if ours else None, 1000 * theirs if theirs is not None else None)


def _otherwise(record: Record, result: Foreign) -> Iterator[str]:
    ours = record.metrics
    assert ours is not None, "a good record has metrics"
    if result.completed != ours.completed:
        yield f"{result.completed} requests, here {ours.completed}"
    if result.completed and ours.completed:
        theirs = result.output_tokens / result.completed
        mine = ours.completion_tokens / ours.completed
        if abs(theirs / mine - 1) > _SAME_LOAD if mine else theirs:
            yield f"{theirs:.1f} tokens an answer, here {mine:.1f}"
    busy, asked = result.concurrency_achieved, result.concurrency
    if busy and asked and busy < _KEPT * min(asked, ours.concurrency_achieved):
        yield f"{busy:.1f} requests in flight, here {ours.concurrency_achieved:.1f}"
    if result.failed:
        yield f"{result.failed} requests failed"
    if result.model not in (None, record.deployment.model.name):
        yield f"model {result.model}, here {record.deployment.model.name}"


_PER_CHUNK: Final = "its ITL is between chunks, whatever they bring; here between tokens"
_WHOLE: Final = "its window ends with the last connection, here with the last token"
_POOL: Final = "it counts from before its connection is chosen, here from the body at the socket"
_SERVER_BENCH: Final = {"ITL": _PER_CHUNK, "tok/s": _WHOLE, "req/s": _WHOLE, "TTFT": _POOL}
NOTES: Final[Mapping[Tool, Mapping[str, str]]] = {
    "sglang": {
        **_SERVER_BENCH,
        "e2e": "its answer ends with the stream, here with the last token",
        "accept": "it reads a gauge of the server since its start, here differences of counters",
    },
    "vllm": _SERVER_BENCH,
    "aiperf": {
        "ITL": "its inter-chunk latency is between chunks; here ITL is between tokens",
        "TPOT": "it leaves out the tokens of the first chunk and counts to the last event",
        "TTFT": _POOL,
        "e2e": "its answer ends with the last event, here with the last token",
        "accept": "it weighs what each answer tells of itself, here counters of the window",
    },
}
"""By the first word of a metric."""

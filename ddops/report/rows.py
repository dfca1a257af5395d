"""One row of the result table: a variant at one pace, every number linked. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ddops.analysis.repeats import Group, step_s
from ddops.spec.matrix import Pace
from ddops.spec.record import Metrics, Record, Spread

COLUMNS: Final = (
    "variant",
    "C",
    "tok/s",
    "speed-up",
    "accept",
    "range tok/s",
    "step ms",
    "TTFT ms",
    "TPOT ms",
    "coding",
    "gates",
)
ABSENT: Final = "-"


@dataclass(frozen=True)
class Value:
    """A cell of the table: what it says, and the cells (by id) whose records say so."""

    text: str
    records: tuple[str, ...] = ()
    kind: str = "number"  # number, ratio (of the first record to the second), name, good, bad


def row(group: Group) -> tuple[Value, ...]:
    name = Value(group.variant.name, kind="name")
    pace = Value(_rung(group.pace))
    median = group.median
    if median is None or median.metrics is None:
        ids = tuple(record.cell.id for record in group.records)
        told = Value(group.verdict, ids, kind="bad")
        return (name, pace, told, *[Value(ABSENT)] * (len(COLUMNS) - 3))
    said, own = median.metrics, (median.cell.id,)
    green = group.verdict == "ok"
    gates = f"{len(median.gates)} green" if median.gates else "none"
    return (
        name,
        pace,
        Value(number(said.output_tok_s), own),
        _speedup(group),
        Value(f"{said.accept:.2f}", own) if said.accept is not None else Value(ABSENT),
        _range(group),
        _step(said, own),
        Value(_ms(said.ttft_s), own),
        Value(_ms(said.tpot_s), own),
        _coding(median),
        Value(gates if green else group.verdict, own, kind="good" if green else "bad"),
    )


def _coding(median: Record) -> Value:
    solved = median.coding
    if solved is None:
        return Value(ABSENT)
    return Value(f"{solved.passed} of {len(solved.solved)}", (median.cell.id,))


def number(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.1f}"


def _rung(pace: Pace) -> str:
    """In a closed loop C, which is the column's head; in an open one the requests a second."""
    return str(pace.concurrency) if pace.arrivals == "closed" else str(pace)


def _speedup(group: Group) -> Value:
    if group.speedup is None:
        return Value(ABSENT)
    both = (group.speedup.of, group.speedup.base)
    return Value(f"{group.speedup.value:.2f}x", both, kind="ratio")


def _range(group: Group) -> Value:
    if len(group.good) < 2:
        return Value(ABSENT)
    text = f"{number(min(group.throughputs))} to {number(max(group.throughputs))}"
    return Value(text, tuple(record.cell.id for record in group.good))


def _step(said: Metrics, own: tuple[str, ...]) -> Value:
    seconds = step_s(said)
    return Value(f"{1000 * seconds:.1f}", own) if seconds is not None else Value(ABSENT)


def _ms(spread: Spread | None) -> str:
    if spread is None:
        return ABSENT
    return f"{1000 * spread.p50:.1f} / {1000 * spread.p99:.1f}"

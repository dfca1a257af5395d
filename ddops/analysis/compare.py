"""Records side by side: rows of the result table, and speed-ups that name their two records.

Pure. A speed beside a red gate or a failure is not a speed, and no ratio is made from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddops.spec.record import Record


@dataclass(frozen=True)
class Speedup:
    """`of` over `base`, both cell ids of one run."""

    value: float
    of: str
    base: str


@dataclass(frozen=True)
class Row:
    cell: str
    variant: str
    pace: str  # `C=4`, or `0.5/s` in an open loop
    concurrency: int  # 0 in an open loop
    repeat: int
    output_tok_s: float | None  # None: not measured, or a gate is red
    speedup: Speedup | None  # over `ar` at the same pace
    ttft_p50_s: float | None
    tpot_p50_s: float | None
    accept: float | None
    verdict: str  # `ok`, `invalid: garbage`, `failed: service-died`
    requests_s: float | None  # as `output_tok_s`
    goodput_s: float | None
    in_flight: float | None  # on average; asked is `concurrency`
    pass_at_1: float | None  # of the coding problems
    warnings: tuple[str, ...]


def rows(records: Sequence[Record]) -> tuple[Row, ...]:
    return tuple(_row(record, baseline(record, records)) for record in records)


def baseline(record: Record, records: Sequence[Record]) -> Record | None:
    """The good autoregressive record of the same run, pace and repeat."""
    return next(
        (
            other
            for other in records
            if other.ok
            and other.cell.variant.mode == "ar"
            and other.matrix_fingerprint == record.matrix_fingerprint
            and other.box == record.box
            and other.cell.pace == record.cell.pace
            and other.cell.repeat == record.cell.repeat
            and not other.cell.again
        ),
        None,
    )


def speedup(record: Record, base: Record) -> Speedup | None:
    """output_tok_s of `record` over that of `base`; None unless both are good."""
    if not (record.ok and base.ok and record.metrics and base.metrics):
        return None
    if not base.metrics.output_tok_s:
        return None
    value = record.metrics.output_tok_s / base.metrics.output_tok_s
    return Speedup(value=value, of=record.cell.id, base=base.cell.id)


def verdict(record: Record) -> str:
    if record.failure is not None:
        return f"failed: {record.failure.kind}"
    if not record.gates:
        return "invalid: no gate"
    red = [gate.name for gate in record.gates if not gate.green]
    return f"invalid: {', '.join(red)}" if red else "ok"


def _row(record: Record, base: Record | None) -> Row:
    good = record.metrics if record.ok else None
    return Row(
        cell=record.cell.id,
        variant=record.cell.variant.name,
        pace=str(record.cell.pace),
        concurrency=record.cell.concurrency,
        repeat=record.cell.repeat,
        output_tok_s=good.output_tok_s if good else None,
        speedup=speedup(record, base) if base else None,
        ttft_p50_s=good.ttft_s.p50 if good and good.ttft_s else None,
        tpot_p50_s=good.tpot_s.p50 if good and good.tpot_s else None,
        accept=record.metrics.accept if record.metrics else None,
        verdict=verdict(record),
        requests_s=good.requests_s if good else None,
        goodput_s=good.goodput_s if good else None,
        in_flight=good.concurrency_achieved if good else None,
        pass_at_1=record.coding.pass_at_1 if record.coding else None,
        warnings=record.warnings,
    )

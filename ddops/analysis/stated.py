"""Are stated claims borne out by the records they name? Each with its arithmetic. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ddops.analysis.compare import verdict
from ddops.spec.claims import ClaimKind, StatedClaim
from ddops.spec.record import Record
from ddops.spec.transcript import Span, Transcript


@dataclass(frozen=True)
class Source:
    """What one record tells: figures by name, or why it tells none."""

    figures: Mapping[str, float | Span]
    trouble: str | None = None  # `failed: garbage`, `invalid: lossless`


@dataclass(frozen=True)
class Step:
    """One line of arithmetic, the records in it, and whether it bears the sentence out."""

    records: tuple[str, ...]
    text: str
    found: float | None  # None: it cannot be worked out
    holds: bool


@dataclass(frozen=True)
class Judged:
    claim: StatedClaim
    steps: tuple[Step, ...]

    @property
    def holds(self) -> bool:
        return all(step.holds for step in self.steps)


@dataclass(frozen=True)
class _Found:
    text: str
    number: float
    holds: bool


class _NoFigure(Exception):
    """A record is there and does not tell the figure that a claim asks of it."""


def of_records(records: Iterable[Record]) -> dict[str, Source]:
    """By cell id; of several attempts at a cell the last one counts."""
    return {record.cell.id: _source(record) for record in records}


def of_transcript(transcript: Transcript) -> dict[str, Source]:
    made = {figure.name: Source({"value": figure.value}) for figure in transcript.figures}
    for cell in transcript.cells:
        told = {"output_tok_s": cell.output_tok_s, "accept": cell.accept}
        coding = {"coding": cell.coding.passed / cell.coding.of} if cell.coding else {}
        figures = {name: value for name, value in told.items() if value is not None}
        trouble = f"failed: {cell.failure.kind}" if cell.failure else None
        made[cell.id] = Source(figures | coding, trouble)
    return made


def unknown(claims: Iterable[StatedClaim], sources: Mapping[str, Source]) -> list[str]:
    """Names in claims that no record has, in the order they come."""
    named = [name for claim in claims for name in (*claim.of, *claim.base)]
    return list(dict.fromkeys(name for name in named if name not in sources))


def judge(claim: StatedClaim, sources: Mapping[str, Source]) -> Judged:
    """Every name of `claim` must be in `sources`."""
    return Judged(claim, tuple(_steps(claim, sources)))


def _steps(claim: StatedClaim, sources: Mapping[str, Source]) -> Iterator[Step]:
    if claim.kind == "value":
        named: list[tuple[str, ...]] = [(of,) for of in claim.of]
    elif claim.kind in ("maximum", "minimum"):
        named = [(claim.of[0], base) for base in claim.base]
    else:
        named = list(zip(claim.of, claim.base, strict=True))
    for names in named:
        yield _step(claim, names, sources)


def _step(claim: StatedClaim, names: tuple[str, ...], sources: Mapping[str, Source]) -> Step:
    try:
        numbers = [_number(name, claim.figure, sources) for name in names]
        found = _WORK[claim.kind](claim, *numbers)
    except _NoFigure as reason:
        return Step(names, str(reason), None, holds=False)
    return Step(names, found.text, found.number, found.holds)


def _number(name: str, figure: str, sources: Mapping[str, Source]) -> float:
    source = sources[name]
    if source.trouble is not None:
        raise _NoFigure(f"{name} {source.trouble}, so nothing follows from it")
    value = source.figures.get(figure)
    if value is None:
        raise _NoFigure(f"{name} has no {figure}")
    if isinstance(value, Span):
        raise _NoFigure(f"{name} has {figure} {value.low:g} to {value.high:g}, no single number")
    return value


def _value(claim: StatedClaim, of: float) -> _Found:
    return _against(claim, f"{of:g}", of)


def _ratio(claim: StatedClaim, of: float, base: float) -> _Found:
    if base == 0:
        raise _NoFigure(f"{of:g} / 0 is no number")
    return _against(claim, f"{of:g} / {base:g} = {of / base:.4g}", of / base)


def _difference(claim: StatedClaim, of: float, base: float) -> _Found:
    return _against(claim, f"{of:g} - {base:g} = {of - base:.4g}", of - base)


def _more(claim: StatedClaim, of: float, base: float) -> _Found:
    return _ordered(of, base, holds=of > base)


def _less(claim: StatedClaim, of: float, base: float) -> _Found:
    return _ordered(of, base, holds=of < base)


def _against(claim: StatedClaim, text: str, found: float) -> _Found:
    """The edge of the tolerance belongs to it, whatever binary fractions make of it."""
    assert claim.stated is not None, "the kinds with a number have one"
    assert claim.tolerance is not None, "the kinds with a number have a tolerance"
    off = abs(found - claim.stated)
    holds = off <= claim.tolerance or math.isclose(off, claim.tolerance)
    told = f"{text}, stated {claim.stated:g} ± {claim.tolerance:g}"
    return _Found(told if holds else f"{told}: off by {off:.3g}", found, holds)


def _ordered(of: float, base: float, *, holds: bool) -> _Found:
    sign = ">" if of > base else "<" if of < base else "="
    return _Found(f"{of:g} {sign} {base:g}", of - base, holds)


_WORK: Final[Mapping[ClaimKind, Callable[..., _Found]]] = {
    "value": _value,
    "ratio": _ratio,
    "difference": _difference,
    "more": _more,
    "maximum": _more,
    "minimum": _less,
}


def _source(record: Record) -> Source:
    told = verdict(record)
    metrics = record.metrics
    if told != "ok" or metrics is None:
        return Source({}, told)
    figures = {
        "output_tok_s": metrics.output_tok_s,
        "accept": metrics.accept,
        "ttft_p50_s": metrics.ttft_s.p50 if metrics.ttft_s else None,
        "tpot_p50_s": metrics.tpot_s.p50 if metrics.tpot_s else None,
    }
    return Source({name: value for name, value in figures.items() if value is not None})

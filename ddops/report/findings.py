"""The findings of a transcript: tables worked out from its figures, and its own words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ddops.analysis.bottleneck import Signs, judge
from ddops.analysis.stated import Judged
from ddops.spec.transcript import Power, Span, TranscribedCell, Transcript

Row = tuple[str, ...]
ABSENT: Final = "-"


@dataclass(frozen=True)
class Findings:
    title: str
    transcript: Transcript
    results: tuple[Row, ...]  # configuration, C, tok/s, over `ar` at the same C, outcome
    steps: tuple[Row, ...]  # configuration, accept, tok/s at C=1, ms a step, over a step of `ar`
    judged: tuple[Judged, ...]
    boxes: tuple[str, ...]
    figures: tuple[Row, ...]  # name, then what is told of each box
    others: tuple[Row, ...]  # figures of no box
    bottleneck: str


def findings(name: str, transcript: Transcript, judged: Sequence[Judged]) -> Findings:
    boxes = dict.fromkeys(one.box for one in transcript.figures if one.box is not None)
    return Findings(
        title=name,
        transcript=transcript,
        results=tuple(_result(cell, transcript) for cell in transcript.cells if _ends(cell)),
        steps=tuple(_step(cell, transcript) for cell in transcript.cells if _streams_one(cell)),
        judged=tuple(judged),
        boxes=tuple(boxes),
        figures=tuple(_side_by_side(transcript, list(boxes))),
        others=tuple(
            (one.name, _number(one.value, one.unit), one.about)
            for one in transcript.figures
            if one.box is None
        ),
        bottleneck=bottleneck(transcript.power),
    )


def bottleneck(power: Power) -> str:
    """Both ends of the power must lead to the same; bytes and steps are no part of it."""
    low, high = power.drawn_w.low / power.limit_w, power.drawn_w.high / power.limit_w
    seen = (
        f"{power.drawn_w.low:g} to {power.drawn_w.high:g} W of {power.limit_w:g} W "
        f"({low:.0%} to {high:.0%}) at {power.utilisation:.0%} utilisation"
    )
    least, most = (judge(Signs(gpus=1, busy=power.utilisation, power=one)) for one in (low, high))
    if least.kind != most.kind:
        return f"{seen}: that fits more than one cause."
    return f"{seen}: {most.label}. {most.why}"


def _ends(cell: TranscribedCell) -> bool:
    return cell.output_tok_s is not None or cell.failure is not None


def _streams_one(cell: TranscribedCell) -> bool:
    return cell.output_tok_s is not None and cell.concurrency == 1


def _result(cell: TranscribedCell, transcript: Transcript) -> Row:
    concurrency = str(cell.concurrency or ABSENT)
    if cell.failure is not None or cell.output_tok_s is None:
        outcome = f"{cell.failure.kind}: {cell.failure.message}" if cell.failure else ""
        return (cell.variant.name, concurrency, ABSENT, ABSENT, outcome)
    base = _base(cell, transcript)
    ratio = ABSENT
    if base is not None and cell.variant.mode != "ar":
        ratio = f"{cell.output_tok_s:g} / {base:g} = {cell.output_tok_s / base:.3f}"
    said = f"write-up {cell.writeup}" if cell.writeup else ""
    return (cell.variant.name, concurrency, f"{cell.output_tok_s:g}", ratio, said)


def _base(cell: TranscribedCell, transcript: Transcript) -> float | None:
    """tok/s of `ar` at the concurrency of `cell`."""
    same = (
        other.output_tok_s
        for other in transcript.cells
        if other.variant.mode == "ar" and other.concurrency == cell.concurrency
    )
    return next(same, None)


def _step(cell: TranscribedCell, transcript: Transcript) -> Row:
    """Of one stream a step takes accept / tok/s; a range stays one."""
    accept = _accept(cell, transcript)
    assert cell.output_tok_s is not None, "only cells with a speed have a step"
    name = ".".join(filter(None, (cell.variant.name, cell.writeup)))
    speed = f"{cell.output_tok_s:g}"
    if accept is None:
        return (name, ABSENT, speed, ABSENT, ABSENT)
    low, high = (1000 * one / cell.output_tok_s for one in (accept.low, accept.high))
    base = _base(cell, transcript)
    ratio = _range(low * base / 1000, high * base / 1000, ".2f") if base else ABSENT
    return (name, _range(accept.low, accept.high, "g"), speed, _range(low, high, ".1f"), ratio)


def _accept(cell: TranscribedCell, transcript: Transcript) -> Span | None:
    """That of the cell, or of its configuration; a step of `ar` commits one token."""
    if cell.variant.mode == "ar":
        return Span(low=1, high=1)
    own = [other for other in transcript.cells if other.variant == cell.variant]
    told = next((other.accept for other in (cell, *own) if other.accept is not None), None)
    return told if told is None or isinstance(told, Span) else Span(low=told, high=told)


def _side_by_side(transcript: Transcript, boxes: Sequence[str]) -> Iterator[Row]:
    """`pcie-bandwidth` and `b300-bandwidth` are one row, `bandwidth`."""
    told: dict[str, dict[str, str]] = {}
    for one in transcript.figures:
        if one.box is not None:
            own = told.setdefault(one.name.removeprefix(f"{one.box}-"), {})
            own[one.box] = f"{_number(one.value, one.unit)}; {one.about}"
    for name, by_box in told.items():
        yield (name, *(by_box.get(box, "") for box in boxes))


def _number(value: float | Span, unit: str) -> str:
    text = _range(value.low, value.high, "g") if isinstance(value, Span) else f"{value:g}"
    return f"{text} {unit}"


def _range(low: float, high: float, form: str) -> str:
    text = f"{low:{form}}"
    return text if low == high else f"{text} to {high:{form}}"

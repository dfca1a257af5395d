"""A step taken apart, and what it would be elsewhere: each part with its arithmetic. Pure.

Bytes at peak bandwidth are a floor. What a measured step takes beyond the parts that can be
reckoned is called dispatch: launches, tree, accept, sampling, and every part's inefficiency. It is
taken from the nearest measured cells (same link, same mode) and never made up: without one there
is only a floor.

Two ends are reckoned, each consistent in itself, so that an anchor's own step comes out as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddops.analysis.cost import exchange, floor, moe
from ddops.analysis.cost.catalogue import link, processor
from ddops.analysis.cost.range import Range
from ddops.errors import UsageError
from ddops.spec.cost import FieldRecord, Measured, Processor, Target
from ddops.spec.deployment import Mode

_GUESSED_BUDGETS = (8, 32)  # of `guessed_rest_ms`


@dataclass(frozen=True)
class Case:
    """One configuration. `budget` 0 is autoregressive."""

    target: Target
    on: Processor
    gpus: int
    budget: int
    concurrency: int = 1
    context: int = 2048  # cached tokens of a request

    @property
    def mode(self) -> Mode:
        return "ddtree" if self.budget else "ar"

    @property
    def tokens(self) -> int:
        """That one step verifies."""
        return self.concurrency * (self.budget + 1)


@dataclass(frozen=True)
class Part:
    name: str
    seconds: Range
    why: str


@dataclass(frozen=True)
class Estimate:
    case: Case
    parts: tuple[Part, ...]
    floor_s: float  # bytes of weights, cache and drafter at peak bandwidth
    step_s: Range | None  # None: no measured cell tells the dispatch
    accept: Range | None
    assumptions: tuple[str, ...]

    @property
    def tok_s(self) -> Range | None:
        """Of all requests together; from the dispatch of a measured cell."""
        if self.step_s is None or self.accept is None:
            return None
        return self.accept.per(self.step_s) * self.case.concurrency

    @property
    def at_most_tok_s(self) -> float | None:
        """What bytes alone allow."""
        if self.accept is None:
            return None
        return self.case.concurrency * self.accept.high / self.floor_s


@dataclass(frozen=True)
class _End:
    """One consistent set of what is uncertain."""

    late: bool  # the slow end
    saves_s: float = 0.0


def estimate(
    case: Case, record: FieldRecord | None, accept: Range | None, saves_s: float = 0.0
) -> Estimate:
    """`record` calibrates where it is of this model; `saves_s`: what a better engine would save.

    Raises `UsageError` for what no GPU can hold, and for more saved than there is to save.
    """
    _refuse_too_large(case)
    own = (
        record if record and (record.target, record.gpus) == (case.target.name, case.gpus) else None
    )
    anchors = _anchors(case, own) if own else ()
    early, late = (_parts(case, own, anchors, _End(x, saves_s)) for x in (False, True))
    parts = tuple(
        Part(a.name, Range.of(a.seconds.low, b.seconds.low), a.why)
        for a, b in zip(early, late, strict=True)
    )
    read = floor.read(case.target, case.gpus, case.tokens, case.concurrency * case.context)
    drafted = read.draft if case.budget else 0.0
    total = read.target_weights + read.cache + drafted
    return Estimate(
        case=case,
        parts=parts,
        floor_s=total / _bandwidth(case),
        step_s=Range.of(_sum(early), _sum(late)) if anchors else None,
        accept=Range(1.0, 1.0) if case.budget == 0 else accept,
        assumptions=_assumptions(case, own, anchors, saves_s),
    )


def _refuse_too_large(case: Case) -> None:
    size = floor.held(case.target, case.gpus, case.concurrency * case.context) / floor.GB
    if size > case.on.memory_gb:
        raise UsageError(
            f"{case.target.name} on {case.gpus} x {case.on.name} at C={case.concurrency} needs "
            f"{size:.0f} GB a GPU, which has {case.on.memory_gb:g}",
            hint="more `--gpus`, fewer requests, or less `--context`",
        )


def _parts(
    case: Case, record: FieldRecord | None, anchors: Sequence[Measured], end: _End
) -> tuple[Part, ...]:
    known = _reckoned(case, record, end)
    if not anchors or record is None:
        return known
    return (*known, _dispatch(case, record, anchors, end))


def _reckoned(case: Case, record: FieldRecord | None, end: _End) -> tuple[Part, ...]:
    """The parts that bytes, work and links tell."""
    read = floor.read(case.target, case.gpus, case.tokens, case.concurrency * case.context)
    at = f"at {case.on.tb_s:g} TB/s"

    def by_bytes(name: str, size: float) -> Part:
        seconds = size / _bandwidth(case)
        return Part(name, Range.of(seconds), f"{size / floor.GB:.2f} GB a GPU {at}")

    parts = [by_bytes("dense weights", read.dense)]
    if case.target.experts:
        parts.append(_experts(case, record, read.experts))
    parts.append(_arithmetic(case, weights_s=_sum(parts)))
    parts.append(by_bytes("cache", read.cache))
    if case.budget and read.draft:
        parts.append(by_bytes("draft", read.draft))
    if case.gpus > 1:
        parts.append(_all_reduce(case, end))
    return tuple(parts)


def _arithmetic(case: Case, *, weights_s: float) -> Part:
    """What the products take beyond the reading of their weights, which goes on beside them."""
    work = floor.flops(case.target, case.gpus, case.tokens)
    seconds = work / (case.on.tflops * 1e12)
    why = f"{work / 1e12:.2f} TFLOP a GPU at {case.on.tflops:g} TFLOP/s, beyond the weights' bytes"
    return Part("arithmetic", Range.of(max(0.0, seconds - weights_s)), why)


def _experts(case: Case, record: FieldRecord | None, size: float) -> Part:
    count = floor.touched(case.target, case.tokens)
    told = f"{count:.0f} experts a layer for {case.tokens} tokens, {size / floor.GB:.2f} GB a GPU"
    if record is None:
        return Part(
            "experts", Range.of(size / _bandwidth(case)), f"{told} at {case.on.tb_s:g} TB/s"
        )
    seconds = moe.seconds(record, case.target, case.on, case.tokens)
    return Part("experts", Range.of(seconds), f"{told}; measured on {record.moe_box}, by bandwidth")


def _all_reduce(case: Case, end: _End) -> Part:
    way = link(case.on)
    taken = exchange.seconds(case.target, case.gpus, case.tokens, way, late=end.late)
    return Part("all-reduce", Range.of(taken), exchange.working(case.target, case.tokens, way))


def _dispatch(case: Case, record: FieldRecord, anchors: Sequence[Measured], end: _End) -> Part:
    """What the anchors' steps take beyond their reckoned parts, a row more for each request."""
    first, *others = anchors
    fixed = _beyond(case, record, first, end)
    why = f"{first.tok_s:g} tok/s on {first.box} at C={first.concurrency}, less the parts above"
    a_row = 0.0
    for other in others:
        a_row = (_beyond(case, record, other, end) - fixed) / (
            other.concurrency - first.concurrency
        )
        why += f"; {a_row * 1e3:.2f} ms more a request, from C={other.concurrency}"
    seconds = fixed + a_row * (case.concurrency - first.concurrency)
    ratio = processor(first.box).tb_s / case.on.tb_s
    seconds *= max(1.0, ratio) if end.late else min(1.0, ratio)
    if end.late:
        seconds += _growth_s(case, record, first)
    if end.saves_s > seconds:
        raise UsageError(
            f"`--saves` {end.saves_s * 1e3:g} is more than the {seconds * 1e3:.1f} ms of dispatch",
            hint="the other parts are bytes and links: a better engine does not save them",
        )
    return Part("dispatch", Range.of(seconds - end.saves_s), why)


def _beyond(case: Case, record: FieldRecord, cell: Measured, end: _End) -> float:
    there = replace(case, on=processor(cell.box), budget=cell.budget, concurrency=cell.concurrency)
    return cell.step_s - _sum(_reckoned(there, record, end))


def _growth_s(case: Case, record: FieldRecord, anchor: Measured) -> float:
    """The record's guess of how all but experts grows with the tree, as a line."""
    first, second = record.guessed_rest_ms
    per_node = (second - first) / 1e3 / (_GUESSED_BUDGETS[1] - _GUESSED_BUDGETS[0])
    return max(0.0, per_node * (case.budget - anchor.budget))


def _anchors(case: Case, record: FieldRecord) -> tuple[Measured, ...]:
    """Cells of this link and mode that may be fitted to, the fewest requests first."""
    fitting = [
        cell
        for cell in record.cells
        if cell.anchors and cell.mode == case.mode and processor(cell.box).link == case.on.link
    ]
    fitting.sort(key=lambda cell: cell.concurrency)
    if len(fitting) == 1 and case.concurrency != fitting[0].concurrency:
        return ()  # one cell cannot tell what a request more costs
    return tuple(fitting)


def _assumptions(
    case: Case, record: FieldRecord | None, anchors: Sequence[Measured], saves_s: float
) -> tuple[str, ...]:
    said = [
        f"{case.on.name}: {case.on.tb_s:g} TB/s, {case.on.tflops:g} TFLOP/s ({case.on.source})",
        f"{case.target.name}: {case.target.source}",
        f"every request has {case.context} cached tokens; tensors spread over {case.gpus} GPUs",
        "weights and cache are read at peak bandwidth: what they miss of it counts as dispatch",
    ]
    if case.gpus > 1:
        said.append(f"all-reduce, {case.on.link}: {link(case.on).source}")
    if case.target.experts:
        said.append("routing is uniform, no expert is hotter than another")
    if case.budget and case.target.drafter_gb is None:
        said.append("the drafter's size is not listed: its bytes are left out")
    if record:
        said.append(f"experts: a line through {_points(record)} on {record.moe_box}, by bandwidth")
    if anchors and processor(anchors[0].box) != case.on:
        said.append(f"dispatch is that of {anchors[0].box}, or changes as bandwidth does")
    if anchors and record and case.budget > anchors[0].budget:
        first, second = record.guessed_rest_ms
        said.append(
            f"dispatch does not grow with the tree, or as the record guesses: {first:g} to "
            f"{second:g} ms from 9 to 33 nodes"
        )
    said += [f"{cell.box} at C={cell.concurrency}: {cell.note}" for cell in anchors if cell.note]
    if saves_s:
        said.append(f"a better engine saves {saves_s * 1e3:g} ms a step: a wish, not a measurement")
    return tuple(said)


def _points(record: FieldRecord) -> str:
    return " and ".join(f"{p.ms:g} ms at {p.tokens} tokens" for p in record.moe)


def _bandwidth(case: Case) -> float:
    return case.on.tb_s * 1e12


def _sum(parts: Sequence[Part]) -> float:
    return sum(part.seconds.low for part in parts)

"""Measured steps out of records, and out of the engine's own step benchmark. Pure.

A record's step is TPOT p50 x accept (`ddops.analysis.repeats.step_s`), so it holds the prefills of
other requests that ran between two steps of one: how many is reckoned from the requests that began
after the first wave. Adaptive variants are left out: their nodes change from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddops.analysis.compare import verdict
from ddops.analysis.cost import floor
from ddops.analysis.cost.catalogue import catalogue, recognised
from ddops.analysis.cost.fit import Step, Timed
from ddops.analysis.repeats import step_s
from ddops.spec.cost import Processor, StepDocument, Target
from ddops.spec.record import Metrics, Record
from ddops.spec.run import Run

_HALF = ("bfloat16", "float16")


@dataclass(frozen=True)
class Observed:
    timed: tuple[Timed, ...]
    concurrency: tuple[int, ...]  # asked, of each
    left_out: tuple[str, ...]
    on: Processor | None  # None: not in the catalogue
    accept: dict[int, float]  # by budget, at the lowest concurrency; of draft trees
    source: str


@dataclass(frozen=True)
class Work:
    """What one GPU cannot avoid in one target step, drafting included."""

    shape: Target
    tokens: int  # that are verified at once
    bytes: float
    flops: float


def of_run(run: Run, records: Sequence[Record]) -> Observed:
    on = _processor(run)
    timed: list[Timed] = []
    concurrency, left_out = [], []
    for record in records:
        why = _unfit(record)
        if why:
            left_out.append(f"{record.cell.id}: {why}")
        else:
            timed.append(_timed(record, on, _gpus(run, record)))
            concurrency.append(record.cell.concurrency)
    return Observed(
        timed=tuple(timed),
        concurrency=tuple(concurrency),
        left_out=tuple(left_out),
        on=on,
        accept=_accepts(records),
        source=f"{run.box}-{run.fingerprint[:8]}",
    )


def work(record: Record, gpus: int) -> Work | None:
    """Of one target step over `gpus` GPUs; None where it cannot be reckoned."""
    shape = _target(record, (*_HALF, "float32"))
    if shape is None or _unfit(record) or record.metrics is None:
        return None
    requests = record.metrics.concurrency_achieved
    tokens = max(1, round(requests * _nodes(record, record.metrics)))
    size = floor.read(shape, gpus, tokens, round(requests * _context(record.metrics)))
    wide = 2 if record.engine and record.engine.info.get("dtype") == "float32" else 1
    drafted = size.draft if record.cell.variant.mode != "ar" else 0.0
    return Work(
        shape=shape,
        tokens=tokens,
        bytes=wide * (size.target_weights + size.cache + drafted),
        flops=floor.flops(shape, gpus, tokens),
    )


def of_document(document: StepDocument) -> Observed:
    """Of the step benchmark: no prefill, and every row is in every step."""
    return Observed(
        timed=tuple(
            Timed(
                Step(
                    name=f"{row.case.budget or 'ar'} x {row.case.batch}",
                    drafts=row.case.budget > 0,
                    requests=row.case.batch,
                    nodes=row.case.batch * (row.case.budget + 1),
                    bytes_s=row.floor_ms / 1e3,
                ),
                row.step_ms / 1e3,
            )
            for row in document.steps
        ),
        concurrency=tuple(row.case.batch for row in document.steps),
        left_out=(),
        on=recognised(document.device),
        accept={},
        source=f"{document.pair} on {document.device}",
    )


def _unfit(record: Record) -> str | None:
    if not record.ok:
        return verdict(record)
    if record.cell.again:
        return "the first cell once more"
    if record.cell.variant.adaptive:
        return "adaptive: its nodes change from step to step"
    if record.cell.arrivals != "closed":
        return "an open loop: how many requests a step serves is not known"
    if record.metrics is None or not record.metrics.completed or step_s(record.metrics) is None:
        return "no time between tokens"
    if record.cell.variant.mode != "ar" and record.metrics.accept is None:
        return "no accept"
    return None


def _gpus(run: Run, record: Record) -> int:
    """That the model is spread over, as an inventory means it."""
    wished = record.deployment
    every = 1 if wished.engine == "ddtree" else len(run.box_facts.get("gpus") or [])
    return wished.gpus or max(1, every)


def _timed(record: Record, on: Processor | None, gpus: int) -> Timed:
    metrics, variant = record.metrics, record.cell.variant
    assert metrics is not None, "only fit records are timed"
    requests = metrics.concurrency_achieved
    nodes = requests * _nodes(record, metrics)
    shape = _target(record)
    read = 0.0
    if on is not None and shape is not None:
        cached = round(requests * _context(metrics))
        size = floor.read(shape, gpus, round(nodes), cached)
        read = (size.target_weights + size.cache) / (on.tb_s * 1e12)
    step = Step(
        name=record.cell.id,
        drafts=variant.mode != "ar",
        requests=requests,
        nodes=nodes,
        prefills=_prefills(record, metrics),
        bytes_s=read,
    )
    seconds = step_s(metrics)
    assert seconds is not None, "only fit records are timed"
    return Timed(step, seconds)


def _nodes(record: Record, metrics: Metrics) -> int:
    """That one request has verified in one step."""
    variant = record.cell.variant
    if variant.mode == "ar":
        return 1
    if variant.mode == "chain":
        return len(metrics.accepted_per_position or ()) + 1
    return (variant.budget or record.deployment.decoding.budget) + 1


def _prefills(record: Record, metrics: Metrics) -> float:
    """Of other requests, in one step: those that begin when the first wave has begun."""
    requests, asked = metrics.completed, record.cell.concurrency
    steps = metrics.completion_tokens / requests / (metrics.accept or 1.0)
    others = max(0.0, metrics.concurrency_achieved - 1)
    return max(0.0, 1 - asked / requests) * others / steps


def _context(metrics: Metrics) -> float:
    """Cached tokens of a request, in the middle of its answer."""
    return (metrics.prompt_tokens + metrics.completion_tokens / 2) / metrics.completed


def _processor(run: Run) -> Processor | None:
    """None where GPUs differ: a step waits for the slowest."""
    names = {str(gpu.get("name", "")) for gpu in run.box_facts.get("gpus") or []}
    return recognised(names.pop()) if len(names) == 1 else None


def _target(record: Record, dtypes: Sequence[str] = _HALF) -> Target | None:
    """As our own engine tells it, at 16 bits; else what the catalogue has under its name."""
    info = record.engine.info if record.engine else {}
    model = info.get("model")
    shape: dict[str, Any] | None = model.get("shape") if isinstance(model, dict) else None
    if shape is None:
        listed = {target.name: target for target in catalogue().targets}
        return listed.get(record.deployment.model.name)
    if shape.get("family") not in ("llama", "qwen3"):
        return None  # a mixture's experts are not in it
    if info.get("dtype") not in dtypes:
        return None
    return Target(
        name=record.deployment.model.name,
        layers=shape["num_layers"],
        hidden=shape["hidden_size"],
        intermediate=shape["intermediate_size"],
        vocab=shape["vocab_size"],
        heads=shape["num_heads"],
        kv_heads=shape["num_kv_heads"],
        head_dim=shape["head_dim"],
        source="the engine's /server_info",
    )


def _accepts(records: Sequence[Record]) -> dict[int, float]:
    found: dict[int, float] = {}
    for record in sorted(records, key=lambda record: record.cell.concurrency):
        variant, metrics = record.cell.variant, record.metrics
        if variant.mode == "ddtree" and not _unfit(record) and metrics and metrics.accept:
            found.setdefault(_nodes(record, metrics) - 1, metrics.accept)
    return found

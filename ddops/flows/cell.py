"""One cell on a service that is ready: measure, judge, and write it down as a record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ddops import __version__
from ddops.analysis.telemetry import Expected, use
from ddops.bench import overhead
from ddops.bench.client import Target
from ddops.bench.coding import gates as coding_gates
from ddops.bench.counters import speculation
from ddops.bench.failure import Seen, failure_of, not_ready
from ddops.bench.measure import Measured, Work, measure
from ddops.bench.metrics import completion_tokens, derive, span
from ddops.bench.prompts import PromptSet, questions, warm_up
from ddops.bench.quality import alone, garbage, lossless
from ddops.errors import ServiceError
from ddops.facts import busy
from ddops.flows.advise import Asked
from ddops.flows.coding import coding
from ddops.flows.service import Served
from ddops.flows.site import Site
from ddops.flows.telemetry import Beside, orders_of, sampled
from ddops.flows.voice import Voice
from ddops.host.base import Host
from ddops.spec.deployment import Deployment
from ddops.spec.matrix import Cell, Matrix
from ddops.spec.record import Coding, EngineSeen, Failure, Gate, Metrics, Record, Trace
from ddops.spec.telemetry import Telemetry

LOG_LINES = 200
_LOOK_S = 0.5
_QUIET_CORES = 0.3


@dataclass(frozen=True)
class Course:
    """What all records of one `ddops bench` share."""

    site: Site
    matrix: Matrix
    prompts: PromptSet
    facts_sha256: str
    commit: str | None
    command: tuple[str, ...]
    folder: Path  # of the run
    asked: Asked  # the box, before the first switch

    @property
    def gpus(self) -> int:
        """That the box has."""
        return len(self.asked.known.box.gpus)


@dataclass(frozen=True)
class Stage:
    """A ready service, and who answered on it."""

    served: Served
    engine: EngineSeen | None

    @property
    def target(self) -> Target:
        served = self.served
        return Target(served.base_url, served.deployment.model.name, served.api_key)


@dataclass(frozen=True)
class Outcome:
    """What is known of a cell when it has ended, well or not."""

    started_at: str
    deployment: Deployment
    unit_sha256: str
    engine: EngineSeen | None
    busy_cores: float | None = None
    measured: Measured | None = None
    metrics: Metrics | None = None
    gates: tuple[Gate, ...] = ()
    coding: Coding | None = None
    failure: Failure | None = None
    telemetry: Telemetry | None = None


def run_cell(
    course: Course, stage: Stage, cell: Cell, baseline: Sequence[Trace] | None, voice: Voice
) -> Record:
    """`baseline`: traces of the autoregressive cell, None without a good record of it."""
    started_at = now()
    busy_cores = _busy_cores(course.site.host, voice)
    orders = orders_of(course.site, stage.served.pid, course.matrix.timeout_s)
    with sampled(course.site, cell.id, orders, voice) as beside:
        measured = _measure(course, stage, cell, voice)
    window = measured.window
    metrics = derive(
        window.traces,
        window.length_s,
        measured.counters_before,
        measured.counters_after,
        course.matrix.load,
    )
    failure = _failure(course, stage, measured, metrics)
    solved = None if failure else coding(stage.target, course.matrix, cell.concurrency, voice)
    outcome = Outcome(
        started_at=started_at,
        deployment=stage.served.deployment,
        unit_sha256=stage.served.unit_sha256,
        engine=stage.engine,
        busy_cores=busy_cores,
        measured=measured,
        metrics=metrics,
        gates=()
        if failure
        else (
            *_gates(course, stage, cell, measured, baseline),
            *coding_gates(solved, course.matrix.coding),
        ),
        coding=solved,
        failure=failure,
    )
    told = _telemetry(course, outcome, beside, f"{cell.id}.{_digits(started_at)}")
    outcome = replace(outcome, telemetry=told)
    return record(course, cell, outcome)


def refused(
    course: Course, cell: Cell, deployment: Deployment, started_at: str, error: ServiceError
) -> Record:
    """The record of a cell whose service did not get ready."""
    failure = not_ready(error.subject, error.detail or "")
    outcome = Outcome(started_at, deployment, unit_sha256="", engine=None, failure=failure)
    return record(course, cell, outcome)


def record(course: Course, cell: Cell, outcome: Outcome) -> Record:
    measured = outcome.measured
    return Record(
        schema_version=1,
        ddops_version=__version__,
        commit=course.commit,
        box=course.site.box.name,
        box_facts_sha256=course.facts_sha256,
        matrix=course.matrix.name,
        matrix_fingerprint=course.matrix.fingerprint,
        cell=cell,
        load=course.matrix.load,
        prompts_sha256=course.prompts.sha256,
        prompts_licence=course.prompts.licence,
        trace_sha256=course.prompts.trace_sha256,
        deployment=outcome.deployment,
        unit_sha256=outcome.unit_sha256,
        engine=outcome.engine,
        started_at=outcome.started_at,
        window_s=measured.window.length_s if measured else None,
        client_lag_s=measured.window.client_lag_s if measured else None,
        client_processes=measured.window.client_processes if measured else None,
        client_cores=measured.window.client_cores if measured else None,
        warnings=overhead.warnings(measured.window, outcome.metrics)
        if measured and outcome.metrics
        else (),
        busy_cores=outcome.busy_cores,
        traces=measured.window.traces if measured else (),
        counters_before=measured.counters_before if measured else {},
        counters_after=measured.counters_after if measured else {},
        metrics=outcome.metrics,
        gates=outcome.gates,
        coding=outcome.coding,
        failure=outcome.failure,
        telemetry=outcome.telemetry,
        command=course.command,
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _busy_cores(host: Host, voice: Voice) -> float | None:
    """The service is ready and idle now, so what takes cores is somebody else's."""
    before = busy.parse(host.run(busy.COMMAND).stdout)
    time.sleep(_LOOK_S)
    used = busy.cores_between(before, busy.parse(host.run(busy.COMMAND).stdout))
    if used is not None and used > _QUIET_CORES:
        voice.warn(f"other processes use {used:.1f} cores: this cell is slower for it")
    return used


def _measure(course: Course, stage: Stage, cell: Cell, voice: Voice) -> Measured:
    load = course.matrix.load
    work = Work(
        warm_up=warm_up(course.prompts, load),
        questions=questions(course.prompts, load, cell.pace),
        concurrency=cell.concurrency,
        timeout_s=course.matrix.timeout_s,
    )
    total, ended = len(work.warm_up) + len(work.questions), 0
    with voice.step(cell.id) as progress:
        progress(0, total)

        def answered() -> None:
            nonlocal ended
            ended += 1
            progress(ended, total)

        return measure(stage.target, work, answered)


def _telemetry(course: Course, outcome: Outcome, beside: Beside, name: str) -> Telemetry:
    """Over the part of the window that the metrics are of."""
    assert outcome.measured is not None and outcome.metrics is not None
    window, metrics = outcome.measured.window, outcome.metrics
    within = span(window.traces, window.length_s, course.matrix.load)
    expected = Expected(
        tokens=metrics.output_tok_s * metrics.duration_s,
        gpus=course.gpus,
        used=use(outcome.deployment, course.gpus),
    )
    opened = window.opened + max(0.0, within.opens)
    told = beside.over(opened, within.length_s, expected)
    return told.model_copy(update={"samples": beside.keep(course.folder, name)})


def _digits(moment: str) -> str:
    """`2026-11-30T01:02:03+00:00` in a file's name."""
    return "".join(filter(str.isdigit, moment.partition("+")[0]))


def _failure(course: Course, stage: Stage, measured: Measured, metrics: Metrics) -> Failure | None:
    window = measured.window
    errors = [trace.error for trace in window.traces if trace.error]
    if not metrics.completed:
        errors.append("no request was sent between `settle_s` and `drain_s` of the load")
    if not errors and not window.timed_out:
        return None
    limit = f"the cell was not done after {course.matrix.timeout_s:.0f} s"
    seen = Seen(
        error=limit if window.timed_out else errors[0],
        alive=course.site.service().pid == stage.served.pid,
        timed_out=window.timed_out,
    )
    return failure_of(seen, stage.served.logs(LOG_LINES))


def _gates(
    course: Course,
    stage: Stage,
    cell: Cell,
    measured: Measured,
    baseline: Sequence[Trace] | None,
) -> tuple[Gate, ...]:
    window = measured.window
    counted = speculation(measured.counters_before, measured.counters_after)
    gates = [garbage(window.texts, counted), alone(completion_tokens(window.traces), counted)]
    if _comparable(course.matrix, cell):
        gates.append(lossless(window.traces, baseline, exact=_is_exact(stage)))
    return tuple(gate for gate in gates if gate is not None)


def _comparable(matrix: Matrix, cell: Cell) -> bool:
    """Only greedy answers are the same answers, and only where `ar` is measured too."""
    has_ar = any(variant.mode == "ar" for variant in matrix.variants)
    return has_ar and cell.variant.mode != "ar" and matrix.load.temperature == 0


def _is_exact(stage: Stage) -> bool:
    wished = stage.served.deployment.dtype
    dtype = stage.engine.info.get("dtype", wished) if stage.engine else wished
    return str(dtype).removeprefix("torch.") == "float32"

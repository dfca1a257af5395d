"""Find the best configuration that a box serves without failing, and leave it serving that.

A search is a matrix of which only what teaches something is measured: its folder is a run like
any other, every try a record, a failure too. A second run goes on where the first stopped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from ddops.analysis.search import every, findings, next_variant
from ddops.bench import expand
from ddops.bench.journal import Journal
from ddops.bench.prompts import load_prompts
from ddops.errors import BenchError, ServiceError, UsageError
from ddops.facts import gpu_memory
from ddops.facts.gpu_memory import Held
from ddops.facts.look import look
from ddops.flows import kept
from ddops.flows.advise import Advised, advise
from ddops.flows.cell import Course, now, refused, run_cell
from ddops.flows.course import Wanted, begin, restore, staged, terminable
from ddops.flows.deploy import Deployed, deploy
from ddops.flows.perform import perform
from ddops.flows.plan import plan as plan_deploy
from ddops.flows.runs import environment, load
from ddops.flows.service import current
from ddops.flows.site import Site
from ddops.flows.stop import stop_plan
from ddops.flows.voice import Voice
from ddops.host import atomic
from ddops.rules.learned import learned
from ddops.spec.box import Box
from ddops.spec.deployment import Deployment
from ddops.spec.load import read
from ddops.spec.matrix import Cell, Load, Matrix, Variant
from ddops.spec.record import FailureKind, Record, Trace
from ddops.spec.rule import Rule, Table
from ddops.spec.search import Axes, Findings, Tried

LEARNED = Path("rules") / "learned.yaml"
_FREE_WITHIN_S = 60.0
_POLL_S = 1.0


@dataclass(frozen=True)
class Limits:
    """What a search may cost."""

    starts: int  # of the service, with the last one that leaves the best serving
    concurrency: int
    load: Load


@dataclass(frozen=True)
class Plan(Wanted):
    axes: Axes
    limits: Limits
    advised: Advised  # for the deployment as it is

    @property
    def tried(self) -> tuple[Tried, ...]:
        """From the records, in the order they were measured."""
        records = [self.journal.latest(self.cell(variant)) for variant in self.matrix.variants]
        known = sorted((one for one in records if one), key=lambda one: one.started_at)
        return tuple(tried_of(record) for record in known)

    def cell(self, variant: Variant) -> Cell:
        return Cell(variant=variant, concurrency=self.limits.concurrency, repeat=1)


@dataclass(frozen=True)
class Searched:
    folder: Path
    tried: tuple[Tried, ...]
    found: Findings
    whole: bool  # nothing is left to learn; False: `starts` ran out
    learned: tuple[Rule, ...]
    outdated: tuple[str, ...]  # rules that forbid what works here
    deployed: Deployed


def plan(site: Site, budgets: tuple[int, ...], limits: Limits, out: Path) -> Plan:
    base = current(site.host, site.box)
    if base is None:
        raise BenchError(
            f"nothing is deployed on box `{site.box.name}`", hint=f"`ddops deploy {site.box.name}`"
        )
    advised = advise(site, base, look(site.host, site.box))
    axes = axes_of(advised, budgets)
    variants = every(axes)
    for variant in variants:
        expand.configured(base, variant)
    matrix = Matrix(
        name=f"search-{site.box.name}",
        variants=variants,
        concurrency=(limits.concurrency,),
        load=limits.load,
    )
    return Plan(
        matrix=matrix,
        prompts=load_prompts(limits.load),
        base=base,
        journal=Journal.of(out, matrix),
        axes=axes,
        limits=limits,
        advised=advised,
    )


def axes_of(advised: Advised, budgets: tuple[int, ...]) -> Axes:
    """What this box can vary. NVLS begins switched off: it costs nothing and cannot crash."""
    seen = advised.situation
    if advised.engine.name == "vllm":
        raise UsageError("vLLM has no draft tree to search for", hint="set another `engine`")
    if seen.nodes > 1:
        raise UsageError(
            "a search restarts one box, and this engine runs over several",
            hint="search on one of them alone: remove `node` and deploy it",
        )
    many = seen.engine != "ddtree" and seen.use > 1
    return Axes(
        budgets=budgets,
        graphs=("auto", "off") if seen.gpus else (None,),
        nvls=("off", "on") if many and seen.fabric == "ready" else (None,),
        parallel=_parallel(advised) if many and seen.experts else (None,),
    )


def _parallel(advised: Advised) -> tuple[Literal["tp", "ep"], ...]:
    """First what the rules make of the box."""
    shared = any(one.flag == "--ep-size" for one in advised.arguments)
    return ("ep", "tp") if shared else ("tp", "ep")


def search(site: Site, planned: Plan, command: tuple[str, ...], voice: Voice) -> Searched:
    """The caller holds the box's lock. Raises `BenchError` when no draft tree works.

    When it is cut short the box serves what it served before.
    """
    journal, out = planned.journal, planned.journal.folder.parent
    with journal.locked(), terminable():
        try:
            _explore(site, planned, begin(site, planned, command), voice)
            environment(load(journal.folder), site.host)
            found = findings(planned.axes, planned.tried)
            if found.best is None:
                raise BenchError(
                    "no draft tree works on this box",
                    hint=f"the reasons are in {journal.folder}/*.failure.json",
                )
            best, outdated = _allowed(site, expand.configured(planned.base, found.best.variant))
            deployed = deploy(best, plan_deploy(best), voice)
            journal.restored()
        finally:
            restore(site, out, voice)
    return Searched(
        folder=journal.folder,
        tried=planned.tried,
        found=found,
        whole=next_variant(planned.axes, planned.tried) is None,
        learned=_learn(planned, found, site.box),
        outdated=outdated,
        deployed=deployed,
    )


def _explore(site: Site, planned: Plan, course: Course, voice: Voice) -> None:
    _stop(site, voice)
    before = _held(site)
    rearm = False
    for start in range(1, planned.limits.starts):
        wanted = next_variant(planned.axes, planned.tried)
        if wanted is None:
            return
        if rearm:
            _rearm(site, before, voice)
        record = _try(site, planned, course, wanted, voice)
        planned.journal.add(record)
        tried = tried_of(record)
        voice.say(f"{start}: {_told(tried)}")
        rearm = not tried.ok


def _try(site: Site, planned: Plan, course: Course, variant: Variant, voice: Voice) -> Record:
    deployment, cell = expand.configured(planned.base, variant), planned.cell(variant)
    started_at = now()
    try:
        stage = staged(course, planned.journal, variant, deployment, voice)
    except ServiceError as error:
        return refused(course, cell, deployment, started_at, error)
    with kept.log(planned.journal.folder, site, cell.id):
        return run_cell(course, stage, cell, _baseline(planned), voice)


def _baseline(planned: Plan) -> tuple[Trace, ...] | None:
    record = planned.journal.record(planned.cell(planned.matrix.variants[0]))
    return record.traces if record else None


def tried_of(record: Record) -> Tried:
    failure = _failure(record)
    metrics = record.metrics if failure is None else None
    return Tried(
        variant=record.cell.variant,
        tok_s=metrics.output_tok_s if metrics else None,
        accept=metrics.accept if metrics else None,
        failure=failure,
    )


def _failure(record: Record) -> FailureKind | None:
    """Someone else's requests spoil a number, not a configuration."""
    if record.failure is not None:
        return record.failure.kind
    fine = all(gate.green or gate.name == "alone" for gate in record.gates)
    return None if record.gates and fine else "garbage"


def _rearm(site: Site, before: Held, voice: Voice) -> None:
    """After a failure: the service is stopped, and what it held on the GPUs has come back.

    Raises `ServiceError` when it has not, naming the processes that hold it.
    """
    _stop(site, voice)
    until = time.monotonic() + _FREE_WITHIN_S
    while not gpu_memory.came_back(held := _held(site), before):
        if time.monotonic() > until:
            who = ", ".join(held.holders) or "no process that the driver names"
            raise ServiceError(
                f"GPU memory did not come back after a crash, MiB by GPU {held.used_mib}: {who}",
                hint="end those processes; if none is left, reset the GPUs, then search again",
            )
        time.sleep(_POLL_S)


def _stop(site: Site, voice: Voice) -> None:
    for command in stop_plan(site):
        perform(site, command, voice)


def _held(site: Site) -> Held:
    return gpu_memory.parse(site.host.run(gpu_memory.COMMAND).stdout)


def _allowed(site: Site, best: Deployment) -> tuple[Site, tuple[str, ...]]:
    """The box with what was found; rules that forbid what was just seen to work are overridden."""
    there = Site(site.host, site.box.model_copy(update={"deployment": best}))
    broken = advise(there, best, look(there.host, there.box)).advice.broken
    outdated = tuple(str(one.rule) for one in broken)
    wish = best.model_copy(update={"overrides": (*best.overrides, *outdated)})
    return Site(site.host, site.box.model_copy(update={"deployment": wish})), outdated


def _learn(planned: Plan, found: Findings, box: Box) -> tuple[Rule, ...]:
    """Walls as rules, in the working folder's own table; what is known already stays."""
    evidence = str(planned.journal.folder)
    rules = tuple(
        learned(wall, planned.advised.situation, box.name, evidence) for wall in found.walls
    )
    if rules:
        kept = read(LEARNED, Table).rules if LEARNED.exists() else ()
        names = {rule.name for rule in rules}
        table = Table(rules=(*(rule for rule in kept if rule.name not in names), *rules))
        data = table.model_dump(mode="json", exclude_defaults=True)
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
        atomic.write(LEARNED, f"# Written by `ddops search`.\n{text}".encode())
    return rules


def _told(tried: Tried) -> str:
    said = tried.failure or f"{tried.tok_s:.1f} tok/s"
    return f"{tried.variant.name}: {said}"

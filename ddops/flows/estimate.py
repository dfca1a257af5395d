"""What a step costs: from bytes and the field record, or from what was measured. Touches no box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddops.analysis.cost import catalogue
from ddops.analysis.cost.engine_runs import of_engine_runs
from ddops.analysis.cost.estimate import Case, Estimate
from ddops.analysis.cost.estimate import estimate as reckon
from ddops.analysis.cost.observe import Observed, of_document, of_run
from ddops.analysis.cost.predict import Fitted, Wish, fitted
from ddops.analysis.cost.range import Range
from ddops.analysis.cost.rank import Projected, project
from ddops.bundle import recheck
from ddops.errors import BundleError, UsageError
from ddops.flows.bundle_verify import unpacked
from ddops.flows.runs import load, read
from ddops.spec.cost import EngineRuns, StepDocument


@dataclass(frozen=True)
class Hardware:
    model: str
    gpu: str
    gpus: int


@dataclass(frozen=True)
class Wanted:
    """`accept` None: what the record has for a budget. `saves_s`: off every step."""

    budgets: tuple[int, ...]
    concurrency: int = 1
    context: int = 2048
    accept: Range | None = None
    saves_s: float = 0.0


def step(hardware: Hardware, wanted: Wanted) -> tuple[Estimate, ...]:
    """One estimate a budget. Raises `UsageError` for a model or GPU that is not listed."""
    model, on = catalogue.target(hardware.model), catalogue.processor(hardware.gpu)
    record = catalogue.field_record()
    known = record.accept_by_budget if model.name == record.target else {}
    made = []
    for budget in wanted.budgets:
        case = Case(model, on, hardware.gpus, budget, wanted.concurrency, wanted.context)
        said = known.get(budget)
        accept = wanted.accept or (Range.of(*said) if said else None)
        made.append(reckon(case, record, accept, wanted.saves_s))
    return tuple(made)


def fit(path: Path, wanted: Wanted, gpu: str | None = None) -> Fitted:
    """`path`: a run's folder, a bundle, or a document of the engine's step benchmark.

    `gpu`: predict for another one. Raises `UsageError` where the measured one is not listed.
    """
    on = catalogue.processor(gpu) if gpu else None
    wishes = [Wish(budget, wanted.concurrency, wanted.accept, on) for budget in wanted.budgets]
    return fitted(_observed(path), wishes)


def rank(path: Path, gpus: Sequence[str], accept: Range | None = None) -> tuple[Projected, ...]:
    """`path`: what the engine's step benchmark wrote of one rank. Raises `UsageError`."""
    on = [catalogue.processor(name) for name in gpus]
    if not path.is_file():
        raise UsageError(
            f"there is no {path}",
            hint="name what `python -m ddtree bench step --rank-of 8 --json FILE` wrote",
        )
    return project(read(path, StepDocument), on, catalogue.field_record(), accept)


def _observed(path: Path) -> Observed:
    if path.is_file() and path.suffix == ".json":
        if '"runs"' in path.read_text("utf-8"):
            return of_engine_runs(read(path, EngineRuns))
        return of_document(read(path, StepDocument))
    if (path / "run.json").is_file():
        stored = load(path)
        return of_run(stored.run, tuple(stored.records.values()))
    if not path.exists():
        raise UsageError(
            f"there is no {path}",
            hint="name a run (`results/…`), a bundle, or what `python -m ddtree bench step` wrote",
        )
    return _bundled(path)


def _bundled(path: Path) -> Observed:
    with unpacked(path) as folder:
        recheck.refuse_newer(folder)
        opened = recheck.open_bundle(folder)
        if opened.run is None or opened.findings:
            raise BundleError(
                f"{path} is damaged", hint=f"`ddops bundle verify {path}` names every fault"
            )
        return of_run(opened.run, tuple(opened.records.values()))

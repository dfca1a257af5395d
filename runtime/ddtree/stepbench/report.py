"""Times every case of a pair, as one JSON document and as lines to read."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import Any

import torch

import ddtree
from ddtree.stepbench.clock import copy_bandwidth
from ddtree.stepbench.measure import Bench, Case, StepTime, random_models
from ddtree.stepbench.shapes import PAIRS

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Wanted:
    """The command line of the step benchmark."""

    pair: str  # a key of PAIRS
    batches: tuple[int, ...]
    budgets: tuple[int, ...]  # 0 is autoregressive
    context: int
    dtype: torch.dtype
    device: torch.device
    repeats: int


def run(wanted: Wanted) -> dict[str, Any]:
    """Times and their circumstances, ready for JSON. Raises KeyError for an unknown pair."""
    with torch.inference_mode():
        bandwidth = copy_bandwidth(wanted.device)
        models = random_models(PAIRS[wanted.pair], wanted.dtype, wanted.device)
        bench = Bench(models, batch=max(wanted.batches), context=wanted.context)
        rows = [
            bench.time(Case(batch, budget, wanted.context), bandwidth, wanted.repeats)
            for batch in wanted.batches
            for budget in wanted.budgets
        ]
    return {
        **header("step", wanted.device),
        "pair": wanted.pair,
        "weights": "random",
        "dtype": str(wanted.dtype).removeprefix("torch."),
        "repeats": wanted.repeats,
        "copy_bytes_per_s": bandwidth,
        "steps": [{**asdict(row), "ratio": row.ratio} for row in rows],
    }


def header(kind: str, device: torch.device) -> dict[str, Any]:
    """What every document of this benchmark begins with."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "ddtree_version": ddtree.__version__,
        "torch": torch.__version__,
        "device": _device_name(device),
    }


def table(document: dict[str, Any]) -> str:
    """The document as lines to read."""
    lines = [f"{'batch':>5} {'budget':>6} {'step ms':>8} {'floor ms':>8} {'ratio':>6}  stages ms"]
    for row in document["steps"]:
        stages = "  ".join(f"{name} {value:.3f}" for name, value in row["stages_ms"].items())
        lines.append(
            f"{row['case']['batch']:>5} {row['case']['budget'] or 'ar':>6} {row['step_ms']:>8.3f} "
            f"{row['floor_ms']:>8.3f} {row['ratio']:>6.2f}  {stages}"
        )
    return "\n".join(lines)


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


__all__ = ["StepTime", "Wanted", "header", "run", "table"]

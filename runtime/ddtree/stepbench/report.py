"""Times every case of a pair, as one JSON document and as lines to read."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import Any

import torch

import ddtree
from ddtree.stepbench.clock import copy_bandwidth
from ddtree.stepbench.measure import Bench, Case, StepTime, random_models
from ddtree.stepbench.routing import Routing, routed
from ddtree.stepbench.shapes import PAIRS, Pair

SCHEMA_VERSION = 1
ABSENT = ("all_reduces_a_verify", "all_reduces_a_draft", "bytes_of_each_a_token")


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
    rank_of: int = 1  # time the share of one of so many ranks
    layers: int | None = None  # of the target; None: all

    @property
    def name(self) -> str:
        """Of what was timed: a part of a model is not the model."""
        return self.pair if self.layers is None else f"{self.pair}, {self.layers} layers"

    @property
    def shapes(self) -> Pair:
        """Raises KeyError for an unknown pair, ModelError for one that does not divide."""
        pair = PAIRS[self.pair].rank_of(self.rank_of)
        return pair if self.layers is None else pair.cut(self.layers)


def run(wanted: Wanted) -> dict[str, Any]:
    """Times and their circumstances, ready for JSON. Raises what `Wanted.shapes` does."""
    pair = wanted.shapes
    routings: tuple[Routing, ...] = ("uniform", "skewed") if pair.target.experts else ("uniform",)
    with torch.inference_mode():
        bandwidth = copy_bandwidth(wanted.device)
        models = random_models(pair, wanted.dtype, wanted.device)
        bench = Bench(models, batch=max(wanted.batches), context=wanted.context)
        rows = {routing: _rows(bench, wanted, routing, bandwidth) for routing in routings}
    return {
        **header("step", wanted.device),
        "pair": wanted.name,
        **_share(wanted, pair),
        "weights": "random, experts INT4" if bench.int4 else "random",
        "dtype": str(wanted.dtype).removeprefix("torch."),
        "repeats": wanted.repeats,
        "copy_bytes_per_s": bandwidth,
        "steps": rows["uniform"],
        **{f"{routing}_steps": rows[routing] for routing in routings[1:]},
    }


def _rows(bench: Bench, wanted: Wanted, routing: Routing, bandwidth: float) -> list[dict[str, Any]]:
    with routed(bench.target, routing):
        timed = [
            bench.time(Case(batch, budget, wanted.context), bandwidth, wanted.repeats)
            for batch in wanted.batches
            for budget in wanted.budgets
        ]
    return [{**asdict(row), "ratio": row.ratio} for row in timed]


def _share(wanted: Wanted, pair: Pair) -> dict[str, Any]:
    """What was timed of the model, and what a rank beside others would do that is not in it."""
    target, drafter = pair.target, pair.drafter
    said: dict[str, Any] = {"layers": target.num_layers}
    if wanted.rank_of > 1:
        shares = drafter.layers.num_heads < PAIRS[wanted.pair].drafter.layers.num_heads
        said |= {
            "rank_of": wanted.rank_of,
            "absent": {
                ABSENT[0]: 2 * target.num_layers + 1,  # the embedding's too
                ABSENT[1]: 1 + (2 * drafter.layers.num_layers if shares else 0),
                ABSENT[2]: target.hidden_size * wanted.dtype.itemsize,
                "tokens_of_a_draft": drafter.block_size,
                "besides": "the gathers of logits, one a verify and one a draft",
            },
        }
    return said


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
    lines += [_line(row) for row in document["steps"]]
    if "skewed_steps" in document:
        lines += ["experts drawn skewed:", *(_line(row) for row in document["skewed_steps"])]
    if "absent" in document:
        sums, drafts, size = (document["absent"][key] for key in ABSENT)
        lines.append(
            f"one rank of {document['rank_of']}, alone: in a verify {sums} all-reduces of {size} "
            f"bytes a token are not in these times, in a draft {drafts}, nor what is gathered"
        )
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    pieces = row["stages_ms"] | row["parts_ms"]
    said = [f"{name} {value:.3f}" for name, value in pieces.items()]
    if row["hits"] is not None:
        said.append(f"experts {row['hits']['mean']:.1f} (fair draws {row['hits']['fair']:.1f})")
    return (
        f"{row['case']['batch']:>5} {row['case']['budget'] or 'ar':>6} {row['step_ms']:>8.3f} "
        f"{row['floor_ms']:>8.3f} {row['ratio']:>6.2f}  {'  '.join(said)}"
    )


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


__all__ = ["StepTime", "Wanted", "header", "run", "table"]

"""One row of the step benchmark: the stages of a step, the whole step, and the byte floor."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import Mode, ModelShape
from ddtree.core.batch import Rows
from ddtree.layers.experts import SparseMlp
from ddtree.models.dflash import Drafter, drafter_shapes
from ddtree.models.llama import Llama, target_shapes
from ddtree.ops.experts.packed import Packed
from ddtree.ops.tree_accept import tree_accept
from ddtree.speculate.commit import commit
from ddtree.speculate.draft import draft
from ddtree.speculate.seam import Models, Pools
from ddtree.speculate.step import StepShape, step
from ddtree.speculate.tree import plant, root_only
from ddtree.speculate.verify import verify
from ddtree.stepbench.clock import median_seconds
from ddtree.stepbench.floor import Read, floor
from ddtree.stepbench.parts import Work, parts
from ddtree.stepbench.random_weights import RandomWeights
from ddtree.stepbench.routing import Hits, count_hits, set_apart
from ddtree.stepbench.shapes import Pair

PAGE = 16  # tokens
REACH = 272  # positions past the context: a tree of 256 nodes and its root


@dataclass(frozen=True)
class Case:
    batch: int
    budget: int  # 0 is autoregressive
    context: int  # cached positions a row


@dataclass(frozen=True)
class StepTime:
    """Milliseconds, and the ratio to what the bytes alone would take."""

    case: Case
    stages_ms: dict[str, float]
    parts_ms: dict[str, float]  # of the verify, each kind of work in all layers
    step_ms: float
    floor_bytes: int
    floor_ms: float
    hits: Hits | None  # experts that the step reads

    @property
    def ratio(self) -> float:
        return self.step_ms / self.floor_ms


def random_models(pair: Pair, dtype: torch.dtype, device: torch.device) -> Models:
    like = torch.empty(0, dtype=dtype, device=device)
    shapes = target_shapes(pair.target)
    target = Llama(pair.target, RandomWeights(shapes, dtype, device, int4=pair.int4), like)
    weights = RandomWeights(drafter_shapes(pair.drafter), dtype, device)
    return Models(target, Drafter(pair.drafter, weights, like))


class Bench:
    """Models with a filled cache; `time` measures one case after another."""

    def __init__(self, models: Models, *, batch: int, context: int) -> None:
        assert models.drafter is not None and isinstance(models.target, Llama)
        self.models, self.device = models, models.target.device
        self.target = models.target
        mixtures = [one for one in self.target.modules() if isinstance(one, SparseMlp)]
        if mixtures:
            set_apart(self.target, batch, REACH)
        self.int4 = any(isinstance(mixture.down, Packed) for mixture in mixtures)
        pages = -(-(context + REACH) // PAGE)
        slots = (batch * pages + 1) * PAGE
        self.pools = Pools(
            self._pool(models.target.shape, slots),
            self._pool(models.drafter.shape.layers, slots),
            PAGE,
        )
        self.page_table = torch.arange(1, batch * pages + 1, device=self.device).view(batch, pages)

    def time(self, case: Case, bandwidth: float, repeats: int) -> StepTime:
        drafter = self.models.drafter
        assert drafter is not None
        depth = drafter.shape.depth if case.budget else 0
        mode: Mode = "ddtree" if case.budget else "ar"
        shape = StepShape(mode, case.budget, case.budget, depth, longest=case.context)
        rows = self._rows(case)
        stages, inside = self._pieces(case, rows, shape)

        def whole() -> object:
            return step(rows, self.models, self.pools, shape)

        hits = count_hits(self.target, whole)
        least = floor(
            self.target.shape,
            drafter.shape if case.budget else None,
            batch=case.batch,
            context=case.context,
            itemsize=self.target.dtype.itemsize,
            read=None if hits is None else Read(hits.mean, self.int4),
        ).total
        return StepTime(
            case=case,
            stages_ms=self._timed(stages, repeats),
            parts_ms=self._timed(inside, repeats),
            step_ms=median_seconds(whole, self.device, repeats) * 1e3,
            floor_bytes=least,
            floor_ms=least / bandwidth * 1e3,
            hits=hits,
        )

    def _timed(self, work: Work, repeats: int) -> dict[str, float]:
        return {
            name: median_seconds(piece, self.device, repeats) * 1e3 for name, piece in work.items()
        }

    def _pieces(self, case: Case, rows: Rows, shape: StepShape) -> tuple[Work, Work]:
        """The stages of a step, none of an autoregressive one, and the parts of its verify."""
        models, pools = self.models, self.pools
        if case.budget == 0:
            tree = root_only(rows.root)
            return {}, parts(self.target, rows, tree, pools.target, PAGE, case.context)
        wanted = {"deep": shape.drafted, "width": case.budget, "longest": case.context}
        marginals = draft(rows, models, pools, **wanted)
        tree = plant(rows, marginals, "ddtree", case.budget)
        judged = verify(rows, tree, models, pools, longest=case.context, method="greedy")
        verdict = tree_accept(tree, judged.chosen, shape.depth)
        stages: Work = {
            "draft": lambda: draft(rows, models, pools, **wanted),
            "tree": lambda: plant(rows, marginals, "ddtree", case.budget),
            "verify": lambda: verify(
                rows, tree, models, pools, longest=case.context, method="greedy"
            ),
            "accept": lambda: tree_accept(tree, judged.chosen, shape.depth),
            "commit": lambda: commit(rows, judged, verdict, models, pools),
        }
        return stages, parts(self.target, rows, tree, pools.target, PAGE, case.context)

    def _rows(self, case: Case) -> Rows:
        def ints(value: int) -> torch.Tensor:
            return torch.full((case.batch,), value, dtype=torch.int64, device=self.device)

        def floats(value: float) -> torch.Tensor:
            return torch.full((case.batch,), value, device=self.device)

        return Rows(
            start=ints(case.context),
            root=ints(100),
            page_table=self.page_table[: case.batch],
            temperature=floats(0.0),
            top_p=floats(1.0),
            top_k=ints(0),
            min_p=floats(0.0),
            seed=ints(0),
            limit=ints(case.budget),
            branch=floats(0.0),
        )

    def _pool(self, shape: ModelShape, slots: int) -> KvPool:
        pool = KvPool(shape, slots, dtype=self.models.target.dtype, device=self.device)
        pool.kv.normal_()  # zeros would hide wrong reads and can run faster
        return pool

"""Runs whole steps on the device: captured graphs where there are any, else the same eagerly.

A graph is captured per bucket (batch, budget), largest first, in one memory pool. Everything it
reads or writes was allocated before; the tree is data, so there is no budget it could not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.config import Mode
from ddtree.core.batch import DraftTree
from ddtree.engine.state import RowState
from ddtree.speculate.seam import Models, Pools
from ddtree.speculate.step import Stepped, StepShape, step


@dataclass(frozen=True, order=True)
class Bucket:
    batch: int
    budget: int


@dataclass(frozen=True)
class Ticket:
    """A launched step. `read` waits for it; until the next launch `stepped` is what it made."""

    stepped: Stepped
    numbers: torch.Tensor  # [B, D + 4] int64 on the host: tokens, then length, drafted, healthy
    landed: torch.cuda.Event | None

    def read(self) -> list[list[int]]:
        """Rows of committed tokens [D + 1], length, drafted nodes, 1 if the logits were finite."""
        if self.landed is not None:
            self.landed.synchronize()
        rows: list[list[int]] = self.numbers.tolist()
        return rows


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    index: torch.Tensor  # [B] int64, static input
    numbers: torch.Tensor  # [B, D + 4] int64, static output
    stepped: Stepped


class Stepper:
    """`capture` once, then `launch` steps. One CUDA stream, so steps and prefills are in order."""

    def __init__(
        self, models: Models, pools: Pools, state: RowState, mode: Mode, depth: int
    ) -> None:
        self.models, self.pools, self.state = models, pools, state
        self.mode, self.depth = mode, depth
        self.device = pools.target.kv.device
        self._captured: dict[Bucket, _Captured] = {}

    def capture(self, buckets: list[Bucket]) -> None:
        """Record one graph a bucket on rows of padding, which change nothing that is in use."""
        pool = torch.cuda.graph_pool_handle()
        for bucket in sorted(buckets, reverse=True):
            index = torch.full((bucket.batch,), self.state.padding_row, device=self.device)
            self._eager(index, bucket.budget, longest=0, tree=None)  # compiles kernels
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                stepped, numbers = self._eager(index, bucket.budget, longest=0, tree=None)
            self._captured[bucket] = _Captured(graph, index, numbers, stepped)

    def fits(self, batch: int, budget: int) -> Bucket | None:
        """The smallest captured bucket that holds this step."""
        able = [b for b in self._captured if b.batch >= batch and b.budget == budget]
        return min(able, default=None)

    def launch(
        self, rows: list[int], budget: int, *, longest: int, tree: DraftTree | None = None
    ) -> Ticket:
        """Start one step for these rows. `longest` is at least the longest cached prefix."""
        bucket = self.fits(len(rows), budget) if tree is None else None
        if bucket is None:
            index = torch.tensor(rows, dtype=torch.int64, device=self.device)
            return self._ticket(*self._eager(index, budget, longest=longest, tree=tree))
        captured = self._captured[bucket]
        padded = rows + [self.state.padding_row] * (bucket.batch - len(rows))
        captured.index.copy_(
            torch.tensor(padded, dtype=torch.int64).pin_memory(), non_blocking=True
        )
        captured.graph.replay()
        return self._ticket(captured.stepped, captured.numbers[: len(rows)])

    def _eager(
        self, index: torch.Tensor, budget: int, *, longest: int, tree: DraftTree | None
    ) -> tuple[Stepped, torch.Tensor]:
        shape = StepShape(mode=self.mode, budget=budget, depth=self.depth, longest=longest)
        done = step(self.state.view(index), self.models, self.pools, shape, tree)
        self.state.advance(index, done.verdict)
        healthy = done.judged.logits.sum((1, 2)).isfinite()
        extra = torch.stack([done.verdict.length, (done.tree.depths > 0).sum(1), healthy], 1)
        return done, torch.cat([done.verdict.tokens, extra], 1)

    def _ticket(self, stepped: Stepped, numbers: torch.Tensor) -> Ticket:
        if not numbers.is_cuda:
            return Ticket(stepped, numbers, None)
        host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        host.copy_(numbers, non_blocking=True)
        return Ticket(stepped, host, torch.cuda.current_stream().record_event())

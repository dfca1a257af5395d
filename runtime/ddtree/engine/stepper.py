"""Runs whole steps on the device: captured graphs where there are any, else the same eagerly.

A graph is captured per bucket (batch, budget), largest first. The tree is data, so there is no
budget it could not hold.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from ddtree.config import Mode
from ddtree.core.batch import DraftTree
from ddtree.engine.graphs import Graphs
from ddtree.engine.host_tree import padded_trees
from ddtree.engine.state import News, RowState
from ddtree.engine.upload import download, upload
from ddtree.ops.sample import Method
from ddtree.ops.tally import HEAD, tally
from ddtree.speculate.lookup import HostTree
from ddtree.speculate.seam import Models, Pools
from ddtree.speculate.step import Stepped, StepShape, step

Masses = npt.NDArray[np.float64]

TIMED_STEPS = 5  # steps a bucket is timed over; the median counts


@dataclass(frozen=True, order=True)
class Bucket:
    batch: int
    budget: int  # 0 is autoregressive


@dataclass(frozen=True)
class Launch:
    """One step as the host asks for it: plain numbers, so that other ranks can be told."""

    rows: list[int]
    budget: int
    method: Method
    longest: int  # at least the longest cached prefix
    trees: list[HostTree] | None = None  # trees that the host made, one a row
    news: News = field(default_factory=News)  # what the device has to know before


@dataclass(frozen=True)
class Decoding:
    """Which steps there can be; `budgets` are those a step may choose from."""

    mode: Mode
    depth: int  # D of a drafted step
    budgets: tuple[int, ...]

    @property
    def built(self) -> int:
        """Nodes of the tree that is built; every budget is a prefix of it."""
        return max(self.budgets)

    def shape(self, launch: Launch) -> StepShape:
        longest, method = launch.longest, launch.method
        if launch.budget == 0:
            return StepShape("ar", 0, 0, 0, longest, method)
        return StepShape(self.mode, launch.budget, self.built, self.depth, longest, method)


@dataclass(frozen=True)
class Reading:
    """A step on the host, row by row."""

    tokens: list[list[int]]
    drafted: list[int]
    healthy: list[bool]  # the logits were finite
    mass: Masses  # [B, len(budgets)], accepted drafts that the drafter promised


@dataclass(frozen=True)
class Ticket:
    """A launched step. `stepped` is what it made, valid until the next launch or prefill."""

    stepped: Stepped
    budgets: tuple[int, ...]  # those `numbers` has a mass for
    numbers: torch.Tensor  # [B, 3 + len(budgets) + D + 1] float64, on the host once landed
    landed: torch.cuda.Event | None

    def read(self) -> Reading:
        """Waits for the step: the host's only read of it."""
        if self.landed is not None:
            self.landed.synchronize()
        numbers = self.numbers.numpy()
        first_token = HEAD + len(self.budgets)
        ints = numbers.astype("int64")
        lengths = ints[:, 0].tolist()
        rows = ints[:, first_token:].tolist()
        return Reading(
            tokens=[row[:length] for row, length in zip(rows, lengths, strict=True)],
            drafted=ints[:, 1].tolist(),
            healthy=ints[:, 2].astype(bool).tolist(),
            mass=numbers[:, HEAD:first_token],
        )


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    index: torch.Tensor  # [B] int64, static input
    ticket: Ticket  # static output
    rows: list[int]  # what `index` holds


class Stepper:
    """`capture` once, then `launch` steps. One CUDA stream, so steps and prefills are in order."""

    def __init__(
        self,
        models: Models,
        pools: Pools,
        state: RowState,
        decoding: Decoding,
        graphs: Graphs | None = None,
    ) -> None:
        """`graphs`: the engine's, where there are any; prefills may be among them."""
        self.models, self.pools, self.state, self.decoding = models, pools, state, decoding
        self.device = pools.target.kv.device
        self._captured: dict[Bucket, _Captured] = {}
        self._graphs = graphs

    def capture(self, buckets: list[Bucket]) -> None:
        """Record one graph a bucket on rows of padding, which change nothing that is in use."""
        assert self._graphs is not None
        for bucket in sorted(buckets, reverse=True):
            index = self._padding(bucket.batch)
            # the kernel that filters also serves greedy rows, so one graph serves every request
            launch = Launch([], bucket.budget, "nucleus", longest=self.state.longest)
            graph, ticket = self._graphs.record(partial(self._eager, index, launch))
            held = [self.state.padding_row] * bucket.batch
            self._captured[bucket] = _Captured(graph, index, ticket, held)

    def release(self) -> None:
        """There are no more steps: let go of what a rank cannot leave the others with."""
        if self._graphs is not None:
            self._graphs.release()

    def fits(self, launch: Launch) -> Bucket | None:
        """The smallest captured bucket that holds this step."""
        if launch.trees is not None:
            return None
        batch, budget = len(launch.rows), launch.budget
        able = [b for b in self._captured if b.batch >= batch and b.budget == budget]
        return min(able, default=None)

    def launch(self, launch: Launch) -> Ticket:
        """Start one step for these rows."""
        self.state.hear(launch.news)
        rows, bucket = launch.rows, self.fits(launch)
        if bucket is None:
            index = torch.tensor(rows, dtype=torch.int64, device=self.device)
            return self._land(self._eager(index, launch), len(rows))
        captured = self._captured[bucket]
        padded = rows + [self.state.padding_row] * (bucket.batch - len(rows))
        if padded != captured.rows:
            captured.rows[:] = padded
            captured.index.copy_(upload(padded, self.device))
        captured.graph.replay()
        return self._land(captured.ticket, len(rows))

    def measure(self, buckets: list[Bucket]) -> dict[tuple[int, int], float]:
        """Seconds of one step of padding rows, the host's read included, for every bucket."""
        seconds = {}
        for bucket in buckets:
            rows = [self.state.padding_row] * bucket.batch
            launch = Launch(rows, bucket.budget, "greedy", longest=0)
            times = []
            for _ in range(TIMED_STEPS):
                began = time.perf_counter()
                self.launch(launch).read()
                times.append(time.perf_counter() - began)
            seconds[bucket.batch, bucket.budget] = sorted(times)[TIMED_STEPS // 2]
        return seconds

    def _eager(self, index: torch.Tensor, launch: Launch) -> Ticket:
        shape = self.decoding.shape(launch)
        done = step(self.state.view(index), self.models, self.pools, shape, self._tree(launch))
        scores = done.built.scores
        budgets = tuple(b for b in self.decoding.budgets if b) if scores is not None else ()
        moved = self.state.moved(index)
        numbers = tally(done.tree, scores, done.verdict, done.judged.peak, budgets, moved)
        return Ticket(done, budgets, numbers, None)

    def _tree(self, launch: Launch) -> DraftTree | None:
        if launch.trees is None:
            return None
        return padded_trees(launch.trees, launch.budget + 1, self.device)

    def _land(self, ticket: Ticket, rows: int) -> Ticket:
        """Start the copy of the first `rows` rows to the host."""
        there = download(ticket.numbers[:rows])
        if self._graphs is not None:
            self._graphs.close_gaps()
        return replace(ticket, numbers=there.values, landed=there.landed)

    def _padding(self, batch: int) -> torch.Tensor:
        return torch.full((batch,), self.state.padding_row, dtype=torch.int64, device=self.device)

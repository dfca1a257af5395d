"""Answers by the thousand: the target decodes many rows at once and keeps what it computed.

A row that ends, by an end token, its limit or a loop, makes room for the next prompt. Between two
looks of the host (CHECK steps) nothing waits for it: meanwhile it makes the next prompts ready. On
CUDA the target's part of a step is a graph, since the host needs longer for its 270 launches than
the device for the work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ddtree.cache.pool import KvPool
from ddtree.core.batch import Marginals
from ddtree.engine.graphs import Graphs
from ddtree.models.target import Target
from ddtree.ops.tree_attention import plan_attention
from ddtree.train.corpus import LIKELY, Scales, Staged, nothing_likely, scales_of
from ddtree.train.loops import GRAM, LoopWatch

CHECK = 24  # steps between two looks
PAGE = 16  # tokens
PREFILL = 1 << 15  # tokens of one prefill
PIECE = 128  # tokens of the vocabulary
AHEAD = 8  # a share of the rows, one in so many: prompts made ready while the device works


@dataclass(frozen=True)
class Wanted:
    """One answer to write."""

    prompt: list[int]
    limit: int  # tokens of the answer
    temperature: float = 0.0


@dataclass(frozen=True)
class Limits:
    rows: int
    longest: int  # positions of a row
    ends: frozenset[int]
    stop_at_loops: bool


@dataclass(frozen=True)
class Finished:
    """Rows that ended, in the order of their rows. `lengths` leave out a loop."""

    wanted: list[Wanted]
    rows: torch.Tensor  # [G] int64
    lengths: list[int]
    staged: Staged

    def answers(self) -> list[list[int]]:
        whole = self.staged.tokens[self.rows].tolist()
        return [
            tokens[len(wanted.prompt) : length]
            for tokens, wanted, length in zip(whole, self.wanted, self.lengths, strict=True)
        ]


@dataclass(frozen=True)
class Said:
    """What the target made of every row's root."""

    root: torch.Tensor  # [R] int64
    logits: torch.Tensor  # [R, V] float32


class Rollout:
    """One target, `limits.rows` rows of its cache, and the sequences in them."""

    def __init__(
        self, target: Target, limits: Limits, feature_layers: tuple[int, ...], seed: int
    ) -> None:
        self.target, self.limits, self.feature_layers = target, limits, feature_layers
        rows, longest, device = limits.rows, limits.longest, target.device
        pages = -(-longest // PAGE)
        shape = target.shape
        self.pool = KvPool(shape, rows * pages * PAGE, dtype=target.dtype, device=device)
        self.table = torch.arange(rows * pages, device=device).view(rows, pages)
        self.watch = LoopWatch(rows, longest, device)
        self.noise = torch.Generator(device).manual_seed(seed)
        self.ends = torch.tensor(sorted(limits.ends), dtype=torch.int64, device=device)
        width = len(feature_layers) * shape.hidden_size
        self.staged = Staged(
            torch.zeros(rows, longest, dtype=torch.int64, device=device),
            torch.zeros(rows, longest, width, dtype=torch.uint8, device=device),
            nothing_likely((rows, longest) if feature_layers else (0, 0), device),
        )
        self.scales: Scales | None = None
        self.start = torch.zeros(rows, dtype=torch.int64, device=device)  # the root's position
        self.stop = torch.zeros_like(self.start)  # position of the last token that is allowed
        self.looped = torch.zeros(rows, dtype=torch.bool, device=device)
        self.temperature = torch.zeros(rows, device=device)
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.held: list[Wanted | None] = [None] * rows
        self.warm = self.start[:0]  # rows that are sampled
        self.row = torch.arange(rows, device=device)
        self.ready: deque[Wanted] = deque()
        self.graph: tuple[torch.cuda.CUDAGraph, Said] | None = None

    @torch.no_grad()
    def run(self, wanted: Iterator[Wanted]) -> Iterator[Finished]:
        """Everything wanted, some rows at a time. They are the caller's until it asks for more."""
        while True:
            self._admit(wanted)
            if not any(self.held):
                return
            longest = self.limits.longest
            if not self.start.is_cuda:  # the host's bound until its next look; kernels need none
                longest = min(longest, int(self.start.max()) + CHECK + 1)
            for _ in range(CHECK):
                self._step(longest)
            self._make_ready(wanted)
            finished = self._harvest()
            if finished is not None:
                yield finished

    def _admit(self, wanted: Iterator[Wanted]) -> None:
        free = [row for row, held in enumerate(self.held) if held is None]
        for row in free:
            one = self.ready.popleft() if self.ready else next(wanted, None)
            if one is None:
                break
            self.held[row] = one
        fresh = [row for row in free if self.held[row] is not None]
        warm = [row for row, held in enumerate(self.held) if held is not None and held.temperature]
        self.warm = torch.tensor(warm, dtype=torch.int64, device=self.start.device)
        longest = max((len(held.prompt) for held in self.held if held is not None), default=1)
        size = max(1, PREFILL // longest)
        for at in range(0, len(fresh), size):
            self._prefill(fresh[at : at + size])

    def _make_ready(self, wanted: Iterator[Wanted]) -> None:
        while len(self.ready) * AHEAD < self.limits.rows:
            one = next(wanted, None)
            if one is None:
                return
            self.ready.append(one)

    def _prefill(self, rows: list[int]) -> None:
        """Cache the prompts of these rows; their first tokens become their roots."""
        device = self.start.device
        asked = [held for row in rows if (held := self.held[row]) is not None]
        longest = max(len(one.prompt) for one in asked)
        padded = [one.prompt + [0] * (longest - len(one.prompt)) for one in asked]
        index = torch.tensor(rows, device=device)
        tokens = torch.tensor(padded, device=device)
        length = torch.tensor([len(one.prompt) for one in asked], device=device)
        zero = torch.zeros_like(length)
        positions = torch.arange(longest, device=device).expand(len(rows), -1)
        plan = plan_attention(zero, self.table[index], longest, "causal", PAGE, longest)
        out = self.target.forward(tokens, positions, self.pool, plan, self.feature_layers)
        self.staged.tokens[index, :longest] = tokens
        if out.features is not None:
            if self.scales is None:
                real = positions < length.unsqueeze(1)
                self.scales = scales_of(out.features[real], self.target.shape.hidden_size)
            self.staged.features[index, :longest] = self.scales.pack(out.features)
        self.temperature[index] = torch.tensor([one.temperature for one in asked], device=device)
        self.start[index] = length
        limit = torch.tensor([one.limit for one in asked], device=device)
        self.stop[index] = (length + limit - 1).clamp(max=self.limits.longest - 1)
        self.looped[index] = False
        self.watch.admit(index, length + 1)
        last = out.hidden[torch.arange(len(rows), device=device), length - 1]
        warm = torch.tensor([i for i, one in enumerate(asked) if one.temperature], device=device)
        first = self._choose(self.target.logits(last), warm.long(), self.temperature[index])
        self.staged.tokens[index, length] = first
        self.active[index] = ~torch.isin(first, self.ends) & (self.start[index] < self.stop[index])

    def _step(self, longest: int) -> None:
        """One token for every active row; the others run their last one again, for nothing."""
        said = self._captured() if self.start.is_cuda else self._ask(longest)
        token = self._choose(said.logits, self.warm, self.temperature)
        at = self.start + self.active.long()
        self.staged.tokens[self.row, at] = token.where(self.active, said.root)
        self.looped |= self.watch.add(self.staged.tokens, at) & self.active
        self.start.copy_(at)  # the graph reads it
        ended = torch.isin(token, self.ends) | (at >= self.stop)
        if self.limits.stop_at_loops:
            ended |= self.looped
        self.active &= ~ended

    def _ask(self, longest: int) -> Said:
        """Run every row's root; what is to be kept of it goes to the stage."""
        root = self.staged.tokens[self.row, self.start]
        plan = plan_attention(self.start, self.table, 1, "causal", PAGE, longest)
        positions = self.start.unsqueeze(1)
        out = self.target.forward(
            root.unsqueeze(1), positions, self.pool, plan, self.feature_layers
        )
        logits = self.target.logits(out.hidden[:, 0])
        if out.features is not None and self.scales is not None:
            self.staged.features[self.row, self.start] = self.scales.pack(out.features[:, 0])
            self.staged.keep(self.row, self.start, likely(logits))
        return Said(root, logits)

    def _captured(self) -> Said:
        """The same from a graph, which is recorded the first time."""
        if self.graph is None:
            self.graph = Graphs().record(lambda: self._ask(self.limits.longest))
        graph, said = self.graph
        graph.replay()
        return said

    def _choose(
        self, logits: torch.Tensor, warm: torch.Tensor, temperature: torch.Tensor
    ) -> torch.Tensor:
        """The best token of each row [G, V]; of the `warm` ones a draw, by Gumbel noise."""
        if len(warm):
            noise = torch.empty_like(logits[warm]).exponential_(generator=self.noise)
            logits[warm] -= noise.log_() * temperature[warm].unsqueeze(1)
        return logits.argmax(-1)

    def _harvest(self) -> Finished | None:
        """Rows that ended since the last look leave."""
        active, start, looped = (t.tolist() for t in (self.active, self.start, self.looped))
        ended = [row for row, held in enumerate(self.held) if held is not None and not active[row]]
        if not ended:
            return None
        wanted = [held for row in ended if (held := self.held[row]) is not None]
        cut = GRAM if self.limits.stop_at_loops else 0
        lengths = [start[row] + 1 - cut * looped[row] for row in ended]
        for row in ended:
            self.held[row] = None
        return Finished(wanted, torch.tensor(ended, device=self.start.device), lengths, self.staged)


def likely(logits: torch.Tensor) -> Marginals:
    """The most probable tokens after each row of logits [G, V]: [G, LIKELY].

    The best of V lie in the LIKELY pieces with the best maxima: a whole row is not sorted through.
    """
    every = logits.log_softmax(-1)
    if every.shape[1] % PIECE or every.shape[1] < PIECE * LIKELY:
        top = every.topk(LIKELY)
        return Marginals(top.indices, top.values)
    pieces = every.view(len(every), -1, PIECE)
    best = pieces.amax(2).topk(LIKELY).indices  # [G, LIKELY]
    held = pieces.gather(1, best.unsqueeze(2).expand(-1, -1, PIECE))
    top = held.flatten(1).topk(LIKELY)
    piece = best.gather(1, top.indices // PIECE)
    return Marginals(piece * PIECE + top.indices % PIECE, top.values)

"""Answers by the thousand: the target decodes many rows at once and keeps what it computed.

A row that ends, by an end token, its limit or a loop, makes room for the next prompt. Between two
looks of the host (CHECK steps) nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ddtree.cache.pool import KvPool
from ddtree.models.target import Target
from ddtree.ops.tree_attention import plan_attention
from ddtree.train.corpus import Scales, Staged, scales_of
from ddtree.train.loops import GRAM, LoopWatch

CHECK = 16  # steps between two looks
PAGE = 16  # tokens
PREFILL = 1 << 15  # tokens of one prefill


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
        return [
            self.staged.tokens[row, len(wanted.prompt) : length].tolist()
            for row, wanted, length in zip(
                self.rows.tolist(), self.wanted, self.lengths, strict=True
            )
        ]


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
            torch.zeros(
                rows,
                longest,
                shape.hidden_size if feature_layers else 0,
                dtype=target.dtype,
                device=device,
            ),
        )
        self.scales: Scales | None = None
        self.start = torch.zeros(rows, dtype=torch.int64, device=device)  # the root's position
        self.stop = torch.zeros_like(self.start)  # position of the last token that is allowed
        self.looped = torch.zeros(rows, dtype=torch.bool, device=device)
        self.temperature = torch.zeros(rows, device=device)
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.held: list[Wanted | None] = [None] * rows
        self.warm = self.start[:0]  # rows that are sampled

    @torch.no_grad()
    def run(self, wanted: Iterator[Wanted]) -> Iterator[Finished]:
        """Everything wanted, some rows at a time. They are the caller's until it asks for more."""
        while True:
            self._admit(wanted)
            if not any(self.held):
                return
            deepest = int(self.start.max()) + CHECK + 1  # the host's bound until its next look
            for _ in range(CHECK):
                self._step(min(deepest, self.limits.longest))
            finished = self._harvest()
            if finished is not None:
                yield finished

    def _admit(self, wanted: Iterator[Wanted]) -> None:
        free = [row for row, held in enumerate(self.held) if held is None]
        for row in free:
            one = next(wanted, None)
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
            self.staged.hidden[index, :longest] = out.hidden
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
        row = torch.arange(self.limits.rows, device=self.start.device)
        root = self.staged.tokens[row, self.start].unsqueeze(1)
        plan = plan_attention(self.start, self.table, 1, "causal", PAGE, longest)
        positions = self.start.unsqueeze(1)
        out = self.target.forward(root, positions, self.pool, plan, self.feature_layers)
        if out.features is not None and self.scales is not None:
            self.staged.features[row, self.start] = self.scales.pack(out.features[:, 0])
            self.staged.hidden[row, self.start] = out.hidden[:, 0]
        token = self._choose(self.target.logits(out.hidden[:, 0]), self.warm, self.temperature)
        at = self.start + self.active.long()
        self.staged.tokens[row, at] = token.where(self.active, root[:, 0])
        self.looped |= self.watch.add(self.staged.tokens, at) & self.active
        self.start = at
        ended = torch.isin(token, self.ends) | (at >= self.stop)
        if self.limits.stop_at_loops:
            ended |= self.looped
        self.active &= ~ended

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

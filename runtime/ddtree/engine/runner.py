"""The device side of a step: sequences become rows, rows become committed tokens.

Holds the models and the caches; knows nothing of queues, requests' ends or clients.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Literal, NamedTuple

import torch

from ddtree.config import EngineConfig
from ddtree.core.batch import DraftTree
from ddtree.core.sequence import Sequence, TokenLogprob
from ddtree.engine.budget import BudgetChooser
from ddtree.engine.logprobs import logprobs_at
from ddtree.engine.prefill import Committed, First, method_of, prefill
from ddtree.engine.scheduler import Chunk
from ddtree.engine.stepper import Launch, Reading, Stepper, Ticket
from ddtree.engine.upload import upload
from ddtree.ops.bitmask import pack
from ddtree.speculate import lookup


class _Begun(NamedTuple):
    """A launched step, as its seconds are learnt."""

    at: float
    prefills: int  # how many there had been
    batch: int
    budget: int


class Runner:
    """Prefills chunks and decodes batches. Every method runs on the engine's thread."""

    def __init__(
        self,
        config: EngineConfig,
        stepper: Stepper,
        *,
        lag: Literal[0, 1],
        chooser: BudgetChooser | None = None,
    ) -> None:
        self.config, self.stepper, self.state = config, stepper, stepper.state
        self.models, self.pools = stepper.models, stepper.pools
        self.device = stepper.device
        self.lag = lag  # steps that the host is behind the device
        self.chooser = chooser  # None: always the one budget
        self._lookups: dict[str, lookup.Lookup] = {}
        self._begun: deque[_Begun] = deque()  # steps that were not collected yet
        self._prefills = 0
        self._unread = False  # whether a prefill is under way that nobody waits for
        self._idle_at = 0.0  # when all that was launched before had ended, at last

    @property
    def depth(self) -> int:
        """D of a drafted step."""
        return self.stepper.decoding.depth

    def forget(self, sequence: Sequence) -> None:
        self._lookups.pop(sequence.request.id, None)

    def prefill(self, chunks: list[Chunk]) -> list[First]:
        """Start to cache the chunks. The last one of a fresh prompt also gives its first token.

        On CUDA all chunks are one padded forward: it is launches that cost there. A CPU pays for
        every padded token, so there they run one by one.
        """
        self._prefills += bool(chunks)
        groups = [chunks] if self.device.type == "cuda" else [[chunk] for chunk in chunks]
        firsts = [prefill(group, self.models, self.pools) for group in groups if group]
        found = [first for first in firsts if first is not None]
        self._unread = bool(chunks) and not found
        return found

    def first_tokens(self, firsts: list[First]) -> list[tuple[Sequence, Committed]]:
        """Waits for the prefill, not for the step behind it."""
        found = [one for first in firsts for one in first.read()]
        if found:
            self._idle_at = time.perf_counter()
        return found

    def launch(self, sequences: list[Sequence]) -> Ticket:
        """Start one speculative step for every sequence; the host need not know the last one."""
        rows = [sequence.row for sequence in sequences if sequence.row is not None]
        self._tell(sequences, rows)
        budget = self._budget(sequences, rows)
        if self.chooser is not None:
            prefills = -1 if self._unread else self._prefills
            self._begun.append(_Begun(time.perf_counter(), prefills, len(rows), budget))
        # with a step in flight the device may be D + 1 positions ahead of `cached`
        ahead = (self.depth + 1) * self.lag
        return self.stepper.launch(
            Launch(
                rows,
                budget,
                method_of(sequences),
                longest=max(sequence.cached for sequence in sequences) + ahead,
                tree=self._host_tree(sequences, budget),
            )
        )

    def _tell(self, sequences: list[Sequence], rows: list[int]) -> None:
        """Let the device know of rows that are new to it, and of pages."""
        new = [sequence for sequence in sequences if not sequence.on_device]
        if new:
            self.state.admit(new)
        for sequence in new:
            sequence.on_device = True
            if self.chooser is not None and sequence.row is not None:
                self.chooser.welcome(sequence.row, drafts=sequence.limit > 0)
        known = self.state.pages_known
        grown = [s for s, row in zip(sequences, rows, strict=True) if len(s.pages) > known[row]]
        if grown:
            self.state.extend(grown)

    def collect(self, sequences: list[Sequence], ticket: Ticket) -> list[Committed]:
        """The step's only host read. Moves nothing: the loop does, for those still running."""
        reading = ticket.read()
        if self.chooser is not None:
            self._learn(sequences, ticket, reading)
        logprobs: list[tuple[TokenLogprob, ...] | None] = [None] * len(sequences)
        for i, sequence in enumerate(sequences):
            wanted = sequence.request.logprobs
            if wanted is not None:
                path = ticket.stepped.verdict.path[i, : len(reading.tokens[i])]
                logits = ticket.stepped.judged.logits[i, path]
                logprobs[i] = logprobs_at(logits, reading.tokens[i], wanted)
        return list(map(Committed, reading.tokens, logprobs, reading.drafted, reading.healthy))

    def _budget(self, sequences: list[Sequence], rows: list[int]) -> int:
        wanted = max(sequence.limit for sequence in sequences)
        if self.chooser is not None and wanted:
            return self.chooser.choose(rows)
        return min(budget for budget in self.stepper.decoding.budgets if budget >= wanted)

    def _learn(self, sequences: list[Sequence], ticket: Ticket, reading: Reading) -> None:
        assert self.chooser is not None
        begun, now = self._begun.popleft(), time.perf_counter()
        if begun.prefills == self._prefills:  # else the step waited for a prompt
            seconds = now - max(begun.at, self._idle_at)
            self.chooser.times.learn(begun.batch, begun.budget, seconds)
        self._idle_at = now
        if begun.budget:
            accepted = sum(map(len, reading.tokens)) - len(sequences)
            known = [i for i, s in enumerate(sequences) if s.row is not None]
            rows = [row for s in sequences if (row := s.row) is not None]
            self.chooser.promised(rows, reading.mass[known], begun.budget)
            self.chooser.accepted(accepted, begun.budget)

    def _host_tree(self, sequences: list[Sequence], budget: int) -> DraftTree | None:
        if self.config.drafter != "prompt-lookup" or budget == 0:
            return None
        trees = [
            lookup.propose(
                self._lookups.setdefault(sequence.request.id, lookup.Lookup()),
                sequence.tokens,
                sequence.limit,
                branches=sequence.branches,
            )
            for sequence in sequences
        ]
        return self._pad(trees, budget + 1)

    def _pad(self, trees: list[lookup.HostTree], nodes: int) -> DraftTree:
        """Host trees as tensors of one shape; unused nodes see themselves only."""
        visible = torch.eye(nodes, dtype=torch.bool).repeat(len(trees), 1, 1)
        for i, tree in enumerate(trees):
            for node in range(1, len(tree.tokens)):
                visible[i, node] |= visible[i, tree.parents[node]]

        def padded(values: list[int], filler: int) -> list[int]:
            return values + [filler] * (nodes - len(values))

        return DraftTree(
            tokens=self._tensor([padded(tree.tokens, tree.tokens[0]) for tree in trees]),
            parents=self._tensor([padded(tree.parents, 0) for tree in trees]),
            depths=self._tensor([padded(tree.depths, -1) for tree in trees]),
            ancestors=pack(visible).to(self.device),
        )

    def _tensor(self, values: list[int] | list[list[int]]) -> torch.Tensor:
        return upload(values, self.device)

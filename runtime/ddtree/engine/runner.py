"""The device side of a step: sequences become rows, rows become committed tokens.

Holds the models and the caches; knows nothing of queues, requests' ends or clients.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Literal, NamedTuple

from ddtree.config import EngineConfig
from ddtree.core.sequence import Sequence, TokenLogprob
from ddtree.engine.budget import BudgetChooser
from ddtree.engine.lines import Piece
from ddtree.engine.logprobs import logprobs_at
from ddtree.engine.others import NOBODY, Others
from ddtree.engine.prefill import Committed, First, prefill
from ddtree.engine.prefiller import Prefiller, method_of
from ddtree.engine.scheduler import Chunk
from ddtree.engine.state import News
from ddtree.engine.stepper import Launch, Reading, Stepper, Ticket
from ddtree.speculate import lookup

Order = Launch | list[Piece]


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
        prefiller: Prefiller,
        *,
        lag: Literal[0, 1],
        chooser: BudgetChooser | None = None,
        prefill_seconds: float = 0.0,
    ) -> None:
        self.others: Others = NOBODY
        self.config, self.stepper, self.state = config, stepper, stepper.state
        self.prefiller = prefiller
        self.models, self.pools = stepper.models, stepper.pools
        self.device = stepper.device
        self.lag = lag  # steps that the host is behind the device
        self.chooser = chooser  # None: always the one budget
        self.prefill_seconds = prefill_seconds  # of the smallest one
        self._lookups: dict[str, lookup.Lookup] = {}
        self._begun: deque[_Begun] = deque()  # steps that were not collected yet
        self.prefills = 0  # steps that had one
        self.steps = dict.fromkeys(stepper.decoding.budgets, 0)  # that decoded, by budget
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

        On CUDA all chunks are one forward: it is launches that cost there. On a CPU they run one
        by one, each unpadded.
        """
        self.prefills += bool(chunks)
        groups = [chunks] if self.device.type == "cuda" else [[chunk] for chunk in chunks]
        firsts = [prefill(group, self.prefiller, self.others) for group in groups if group]
        found = [first for first in firsts if first is not None]
        self._unread = bool(chunks) and not found
        return found

    def obey(self, order: Order) -> None:
        """Do what the first rank does; it is the one that reads what comes of it."""
        if isinstance(order, Launch):
            self.stepper.launch(order)
        else:
            self.prefiller.write(order)

    def first_tokens(self, firsts: list[First]) -> list[tuple[Sequence, Committed]]:
        """Waits for the prefill, not for the step behind it."""
        found = [one for first in firsts for one in first.read()]
        if found:
            self._idle_at = time.perf_counter()
        return found

    def launch(self, sequences: list[Sequence]) -> Ticket:
        """Start one speculative step for every sequence; the host need not know the last one."""
        rows = [sequence.row for sequence in sequences if sequence.row is not None]
        news = self._news(sequences)
        budget = self._budget(sequences, rows)
        self.steps[budget] += 1
        if self.chooser is not None:
            prefills = -1 if self._unread else self.prefills
            self._begun.append(_Begun(time.perf_counter(), prefills, len(rows), budget))
        # with a step in flight the device may be D + 1 positions ahead of `cached`
        ahead = (self.depth + 1) * self.lag
        launch = Launch(
            rows,
            budget,
            method_of([sequence.request.sampling for sequence in sequences]),
            longest=max(sequence.cached for sequence in sequences) + ahead,
            trees=self._host_trees(sequences, budget),
            news=news,
        )
        self.others.tell(launch)
        return self.stepper.launch(launch)

    def _news(self, sequences: list[Sequence]) -> News:
        """What the device is to be told: rows that are new to it, and pages."""
        new = [sequence for sequence in sequences if not sequence.on_device]
        for sequence in new:
            sequence.on_device = True
            if self.chooser is not None and sequence.row is not None:
                self.chooser.welcome(sequence.row, drafts=sequence.limit > 0)
        return self.state.news(new, sequences)

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
        if begun.prefills == self.prefills:  # else the step waited for a prompt
            seconds = now - max(begun.at, self._idle_at)
            self.chooser.times.learn(begun.batch, begun.budget, seconds)
        self._idle_at = now
        if begun.budget:
            accepted = sum(map(len, reading.tokens)) - len(sequences)
            known = [i for i, s in enumerate(sequences) if s.row is not None]
            rows = [row for s in sequences if (row := s.row) is not None]
            self.chooser.promised(rows, reading.mass[known], begun.budget)
            self.chooser.accepted(accepted, begun.budget)

    def _host_trees(self, sequences: list[Sequence], budget: int) -> list[lookup.HostTree] | None:
        if self.config.drafter != "prompt-lookup" or budget == 0:
            return None
        return [
            lookup.propose(
                self._lookups.setdefault(sequence.request.id, lookup.Lookup()),
                sequence.tokens,
                sequence.limit,
                branches=sequence.branches,
            )
            for sequence in sequences
        ]

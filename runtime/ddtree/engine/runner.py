"""The device side of a step: sequences become rows, rows become committed tokens.

Holds the models and the caches; knows nothing of queues, requests' ends or clients.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Literal, NamedTuple

import torch

from ddtree.config import EngineConfig
from ddtree.core.batch import DraftTree, Rows
from ddtree.core.sequence import Sequence, TokenLogprob
from ddtree.engine.budget import BudgetChooser
from ddtree.engine.logprobs import logprobs_at
from ddtree.engine.scheduler import Chunk
from ddtree.engine.stepper import Launch, Reading, Stepper, Ticket
from ddtree.ops.bitmask import pack
from ddtree.ops.sample import Method, Narrowing, sample, uniform
from ddtree.ops.tree_attention import plan_attention
from ddtree.speculate import lookup


class Committed(NamedTuple):
    """What one step brought for one sequence."""

    tokens: list[int]
    logprobs: tuple[TokenLogprob, ...] | None
    drafted: int  # nodes besides the root
    healthy: bool  # the target's logits were finite


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
        self._collected = 0.0  # when the last step was

    @property
    def depth(self) -> int:
        """D of a drafted step."""
        return self.stepper.decoding.depth

    def forget(self, sequence: Sequence) -> None:
        self._lookups.pop(sequence.request.id, None)

    def prefill(self, chunks: list[Chunk]) -> list[Committed | None]:
        """Cache the chunks. The last chunk of a fresh prompt also gives its first token.

        On CUDA all chunks are one padded forward: it is launches that cost there. A CPU pays for
        every padded token, so there they run one by one.
        """
        self._prefills += bool(chunks)
        groups = [chunks] if self.device.type == "cuda" else [[chunk] for chunk in chunks]
        return [committed for group in groups if group for committed in self._prefill(group)]

    def _prefill(self, chunks: list[Chunk]) -> list[Committed | None]:
        new = max(chunk.end - chunk.begin for chunk in chunks)
        longest = max(chunk.begin for chunk in chunks) + new
        sequences = [chunk.sequence for chunk in chunks]
        rows = self._rows(sequences, start=[chunk.begin for chunk in chunks], longest=longest)
        tokens = [chunk.sequence.tokens[chunk.begin : chunk.end] for chunk in chunks]
        padded = self._tensor([row + [0] * (new - len(row)) for row in tokens])  # [B, N]
        positions = rows.start.unsqueeze(1) + torch.arange(new, device=self.device)
        # padding lies behind the chunk, in positions that the next step writes, or on page 0
        plan = plan_attention(
            rows.start, rows.page_table, new, "causal", self.pools.page_size, longest
        )
        out = self.models.target.forward(
            padded, positions, self.pools.target, plan, self.models.feature_layers
        )
        if self.models.drafter is not None and self.pools.drafter is not None:
            assert out.features is not None
            self.models.drafter.write_context(
                out.features, positions, plan.write_slots, self.pools.drafter
            )
        for chunk in chunks:
            chunk.sequence.cached = chunk.end
        # other chunks have more to come, or were preempted and know their root
        ended = [i for i, c in enumerate(chunks) if c.end == len(c.sequence.tokens)]
        first = self._first_tokens(sequences, ended, out.hidden, rows, tokens) if ended else {}
        return [first.get(i) for i in range(len(chunks))]

    def _first_tokens(
        self,
        sequences: list[Sequence],
        ended: list[int],
        hidden: torch.Tensor,
        rows: Rows,
        tokens: list[list[int]],
    ) -> dict[int, Committed]:
        """The token after each prompt that is cached to its end."""
        last = self._tensor([len(tokens[i]) - 1 for i in ended])
        which = self._tensor(ended)
        logits = self.models.target.logits(hidden[which, last].unsqueeze(1))  # [E, 1, V]
        draws = uniform(rows.seed[which], rows.start[which] + last + 1).unsqueeze(1)
        method = method_of([sequences[i] for i in ended])
        chosen = sample(
            logits,
            rows.temperature[which],
            rows.top_p[which],
            draws,
            method=method,
            narrowing=Narrowing(rows.top_k[which], rows.min_p[which]),
        )
        healthy = logits.sum((1, 2)).isfinite().tolist()
        result = {}
        for at, (i, (token,)) in enumerate(zip(ended, chosen.tolist(), strict=True)):
            wanted = sequences[i].request.logprobs
            logprobs = None if wanted is None else logprobs_at(logits[at], [token], wanted)
            result[i] = Committed([token], logprobs, drafted=0, healthy=healthy[at])
        return result

    def launch(self, sequences: list[Sequence]) -> Ticket:
        """Start one speculative step for every sequence; the host need not know the last one."""
        rows = [sequence.row for sequence in sequences if sequence.row is not None]
        self._tell(sequences, rows)
        budget = self._budget(sequences, rows)
        if self.chooser is not None:
            self._begun.append(_Begun(time.perf_counter(), self._prefills, len(rows), budget))
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
            self.chooser.times.learn(
                begun.batch, begun.budget, now - max(begun.at, self._collected)
            )
        self._collected = now
        if begun.budget:
            accepted = sum(map(len, reading.tokens)) - len(sequences)
            known = [i for i, s in enumerate(sequences) if s.row is not None]
            rows = [row for s in sequences if (row := s.row) is not None]
            self.chooser.promised(rows, reading.mass[known], begun.budget)
            self.chooser.accepted(accepted, begun.budget)

    def _rows(self, sequences: list[Sequence], start: list[int], longest: int) -> Rows:
        pages = -(-longest // self.pools.page_size)
        wide = max(pages, *(len(sequence.pages) for sequence in sequences))
        sampling = [sequence.request.sampling for sequence in sequences]
        return Rows(
            start=self._tensor(start),
            root=self._tensor([sequence.tokens[-1] for sequence in sequences]),
            page_table=self._tensor([s.pages + [0] * (wide - len(s.pages)) for s in sequences]),
            temperature=torch.tensor([s.temperature for s in sampling], device=self.device),
            top_p=torch.tensor([s.top_p for s in sampling], device=self.device),
            top_k=self._tensor([s.top_k for s in sampling]),
            min_p=torch.tensor([s.min_p for s in sampling], device=self.device),
            seed=self._tensor([s.seed for s in sampling]),
            limit=self._tensor([0] * len(sequences)),  # a prompt drafts nothing
            branch=torch.zeros(len(sequences), device=self.device),
        )

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
        return torch.tensor(values, dtype=torch.int64, device=self.device)


def method_of(sequences: list[Sequence]) -> Method:
    """The cheapest way to sample that serves all of them."""
    hot = [s.request.sampling for s in sequences if s.request.sampling.temperature > 0]
    if not hot:
        return "greedy"
    narrow = any(one.top_p < 1 or one.top_k or one.min_p for one in hot)
    return "nucleus" if narrow else "full"

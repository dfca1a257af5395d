"""The device side of a step: sequences become rows, rows become committed tokens.

Holds the models and the caches; knows nothing of queues, requests' ends or clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ddtree.config import EngineConfig
from ddtree.core.batch import DraftTree, Rows
from ddtree.core.sequence import Sequence, TokenLogprob
from ddtree.engine.budget import BudgetChooser, Outlook
from ddtree.engine.logprobs import logprobs_at
from ddtree.engine.scheduler import Chunk
from ddtree.engine.stepper import Launch, Reading, Stepper, Ticket
from ddtree.ops.bitmask import pack
from ddtree.ops.sample import Method, sample, uniform
from ddtree.ops.tree_attention import plan_attention
from ddtree.speculate import lookup


@dataclass(frozen=True)
class Committed:
    """What one step brought for one sequence."""

    tokens: list[int]
    logprobs: tuple[TokenLogprob, ...] | None
    drafted: int  # nodes besides the root
    healthy: bool  # the target's logits were finite


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
        self._outlooks: dict[str, Outlook] = {}

    def forget(self, sequence: Sequence) -> None:
        self._lookups.pop(sequence.request.id, None)
        self._outlooks.pop(sequence.request.id, None)

    def prefill(self, chunk: Chunk) -> Committed | None:
        """Cache the chunk. The last chunk of a fresh prompt also gives the first token."""
        sequence = chunk.sequence
        new = chunk.end - chunk.begin
        rows = self._rows([sequence], start=[chunk.begin])
        tokens = self._tensor([sequence.tokens[chunk.begin : chunk.end]])  # [1, N]
        positions = self._tensor([list(range(chunk.begin, chunk.end))])
        plan = plan_attention(
            rows.start, rows.page_table, new, "causal", self.pools.page_size, chunk.end
        )
        out = self.models.target.forward(
            tokens, positions, self.pools.target, plan, self.models.feature_layers
        )
        if self.models.drafter is not None and self.pools.drafter is not None:
            assert out.features is not None
            self.models.drafter.write_context(
                out.features, positions, plan.write_slots, self.pools.drafter
            )
        sequence.cached = chunk.end
        if chunk.end < len(sequence.tokens):  # more to come, or preempted before: the root is known
            return None
        logits = self.models.target.logits(out.hidden[:, -1:])  # [1, 1, V]
        draws = uniform(rows.seed.unsqueeze(1), positions[:, -1:] + 1)
        method = method_of([sequence])
        chosen = sample(logits, rows.temperature, rows.top_p, draws, method=method)
        token = int(chosen)
        wanted = sequence.request.logprobs
        return Committed(
            tokens=[token],
            logprobs=None if wanted is None else logprobs_at(logits[0], [token], wanted),
            drafted=0,
            healthy=bool(logits.sum().isfinite()),
        )

    def launch(self, sequences: list[Sequence]) -> Ticket:
        """Start one speculative step for every sequence; the host need not know the last one."""
        for sequence in sequences:
            if not sequence.on_device:
                self.state.admit(sequence)
                sequence.on_device = True
            self.state.extend(sequence)
        rows = [sequence.row for sequence in sequences if sequence.row is not None]
        # with a step in flight the device may be D + 1 positions ahead of `cached`
        ahead = (self.stepper.decoding.depth + 1) * self.lag
        return self.stepper.launch(
            Launch(
                rows,
                self._budget(sequences),
                method_of(sequences),
                longest=max(sequence.cached for sequence in sequences) + ahead,
                tree=self._host_tree(sequences),
            )
        )

    def collect(self, sequences: list[Sequence], ticket: Ticket) -> list[Committed]:
        """The step's only host read. Moves nothing: the loop does, for those still running."""
        readings = ticket.read()
        if self.chooser is not None and ticket.budgets:
            self._learn(sequences, ticket, readings)
        result = []
        for i, reading in enumerate(readings):
            wanted = sequences[i].request.logprobs
            logprobs = None
            if wanted is not None:
                path = ticket.stepped.verdict.path[i, : len(reading.tokens)]
                logits = ticket.stepped.judged.logits[i, path]
                logprobs = logprobs_at(logits, reading.tokens, wanted)
            result.append(Committed(reading.tokens, logprobs, reading.drafted, reading.healthy))
        return result

    def _budget(self, sequences: list[Sequence]) -> int:
        if self.chooser is None:
            return self.stepper.decoding.built
        return self.chooser.choose([self._outlook(sequence) for sequence in sequences])

    def _learn(self, sequences: list[Sequence], ticket: Ticket, readings: list[Reading]) -> None:
        assert self.chooser is not None
        verified = ticket.stepped.tree.tokens.shape[1] - 1
        for sequence, reading in zip(sequences, readings, strict=True):
            self._outlook(sequence).seen(reading.mass)
        self.chooser.learn(
            promised=sum(reading.mass[verified] for reading in readings),
            accepted=sum(len(reading.tokens) - 1 for reading in readings),
        )

    def _outlook(self, sequence: Sequence) -> Outlook:
        return self._outlooks.setdefault(sequence.request.id, Outlook())

    def _rows(self, sequences: list[Sequence], start: list[int]) -> Rows:
        wide = max(len(sequence.pages) for sequence in sequences)
        sampling = [sequence.request.sampling for sequence in sequences]
        return Rows(
            start=self._tensor(start),
            root=self._tensor([sequence.tokens[-1] for sequence in sequences]),
            page_table=self._tensor([s.pages + [0] * (wide - len(s.pages)) for s in sequences]),
            temperature=torch.tensor([s.temperature for s in sampling], device=self.device),
            top_p=torch.tensor([s.top_p for s in sampling], device=self.device),
            seed=self._tensor([s.seed for s in sampling]),
        )

    def _host_tree(self, sequences: list[Sequence]) -> DraftTree | None:
        if self.config.drafter != "prompt-lookup" or self.config.mode == "ar":
            return None
        trees = [
            lookup.propose(
                self._lookups.setdefault(sequence.request.id, lookup.Lookup()),
                sequence.tokens,
                self.config.budget,
                branches=self.config.mode == "ddtree",
            )
            for sequence in sequences
        ]
        return self._pad(trees, self.config.budget + 1)

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
    return "nucleus" if any(sampling.top_p < 1 for sampling in hot) else "full"

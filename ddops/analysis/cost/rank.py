"""From the measured step of one rank alone to the step of all of them, on another GPU. Pure.

`python -m ddtree bench step --rank-of N` times one GPU's share of a model. What it cannot have is
the sum over the others, so that is a term of its own here. On another GPU the bytes of a step take
as much longer as its memory is slower; the time beyond them does too, or stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddops.analysis.cost import exchange
from ddops.analysis.cost.catalogue import link, recognised, target
from ddops.analysis.cost.range import Range
from ddops.errors import UsageError
from ddops.spec.cost import (
    Alone,
    FieldRecord,
    Link,
    Measured,
    Processor,
    StepDocument,
    StepRow,
    Target,
)

UNKNOWN = (
    "how well these kernels do on another GPU: only its bandwidth is reckoned with",
    "what ranks wait for each other: one was measured alone",
    "an all-reduce inside a graph beside these kernels: its time is that of published measurements",
    "which experts are hot: routing was drawn, and a text's experts are others",
    "sampling and what the server does between steps: a rank's step ends with its tokens",
)


@dataclass(frozen=True)
class Projected:
    row: StepRow
    on: Processor
    rank_s: Range  # one rank there, without its sums
    all_reduce_s: Range
    why: str  # of the all-reduce
    accept: Range | None
    record: Measured | None  # what the field record has of this cell

    @property
    def step_s(self) -> Range:
        summed = self.all_reduce_s
        return Range(self.rank_s.low + summed.low, self.rank_s.high + summed.high)

    @property
    def tok_s(self) -> Range | None:
        return self.accept.per(self.step_s) * self.row.case.batch if self.accept else None


def project(
    document: StepDocument,
    on: Sequence[Processor],
    record: FieldRecord,
    accept: Range | None = None,
) -> tuple[Projected, ...]:
    """Every row on every GPU. `accept` None: as the record has it for a budget.

    Raises `UsageError` for a document of no rank, or of a model or GPU that is not listed.
    """
    model, here = target(document.pair), recognised(document.device)
    ranks = _ranks(document)
    if here is None:
        raise UsageError(
            f"`{document.device}` is not listed, so its bandwidth cannot be compared",
            hint="add it to ddops/analysis/cost/catalogue.yaml",
        )
    own = (record.target, record.gpus) == (model.name, ranks)
    case = _Case(here, model, ranks, record if own else None, accept, document.absent)
    return tuple(case.row(row, there) for there in on for row in document.steps)


@dataclass(frozen=True)
class _Case:
    here: Processor
    model: Target
    ranks: int
    record: FieldRecord | None  # of this model over so many GPUs
    accept: Range | None
    absent: Alone

    def row(self, row: StepRow, there: Processor) -> Projected:
        ratio = self.here.tb_s / there.tb_s
        step_s, floor_s = row.step_ms / 1e3, row.floor_ms / 1e3
        tokens = row.case.batch * (row.case.budget + 1)
        way = link(there)
        sums = [
            self._sums(tokens, way, late=late) + self._drafting(row, way, late=late)
            for late in (False, True)
        ]
        return Projected(
            row=row,
            on=there,
            rank_s=Range.of(step_s * ratio, floor_s * ratio + step_s - floor_s),
            all_reduce_s=Range.of(*sums),
            why=f"{exchange.working(self.model, tokens, way)}; embedding's, logits' and draft's",
            accept=self._accept(row.case.budget),
            record=self._cell(row, there),
        )

    def _sums(self, tokens: int, over: Link, *, late: bool) -> float:
        """Two a layer, one for the embedding, and the logits, of which a rank has its part."""
        layers = exchange.seconds(self.model, self.ranks, tokens, over, late=late)
        latency = over.latency_us[late] / 1e6
        rows, logits = exchange.bytes_of(self.model, tokens), 2 * tokens * self.model.vocab
        moved = (self.ranks - 1) / self.ranks * (2 * rows + logits) / over.gb_s / 1e9
        return layers + 2 * latency + moved

    def _drafting(self, row: StepRow, over: Link, *, late: bool) -> float:
        """Those of a drafter that ranks share."""
        tokens = row.case.batch * self.absent.tokens_of_a_draft
        times = self.absent.all_reduces_a_draft if row.case.budget else 0
        return times * exchange.one(self.model, self.ranks, tokens, over, late=late)

    def _accept(self, budget: int) -> Range | None:
        if budget == 0:
            return Range(1.0, 1.0)
        known = self.record.accept_by_budget if self.record else {}
        return self.accept or (Range.of(*known[budget]) if budget in known else None)

    def _cell(self, row: StepRow, there: Processor) -> Measured | None:
        """The fastest, where the record has this cell more than once."""
        wanted = (there.name, row.case.budget, row.case.batch)
        cells = self.record.cells if self.record else ()
        found = [one for one in cells if (one.box, one.budget, one.concurrency) == wanted]
        return max(found, key=lambda one: one.tok_s, default=None)


def _ranks(document: StepDocument) -> int:
    if document.rank_of is None or document.rank_of < 2:
        raise UsageError(
            f"this was measured on the whole of {document.pair}, not on one rank of several",
            hint=f"`python -m ddtree bench step --model {document.pair} --rank-of 8 --json FILE`,"
            " or `ddops estimate fit` for a whole model",
        )
    whole = target(document.pair).layers
    if document.layers not in (None, whole):
        raise UsageError(
            f"{document.layers} of {whole} layers were timed",
            hint="measure all of them: without `--layers`",
        )
    return document.rank_of

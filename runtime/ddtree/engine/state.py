"""What the device knows of every row, kept there between steps so that the host may read late."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from ddtree.core.batch import Rows
from ddtree.core.sequence import Sequence
from ddtree.engine.upload import upload
from ddtree.ops.tally import Moved

INTS = ("start", "root", "seed", "top_k", "limit")
FLOATS = ("temperature", "top_p", "min_p", "branch")
NO_BRANCH = -math.inf  # a path that cannot be: the tree of such a row is a chain


@dataclass(frozen=True)
class News:
    """What the device does not know yet before a step: rows and pages, as plain numbers."""

    ints: list[list[int]] = field(default_factory=list)  # [rows, 1 + len(INTS)], the row first
    floats: list[list[float]] = field(default_factory=list)  # [rows, len(FLOATS)]
    places: list[int] = field(default_factory=list)  # in the flat page table,
    pages: list[int] = field(default_factory=list)  # and what comes there


class RowState:
    """One entry a row, and a last one that padding uses: page 0 only, start 0.

    Allocated once. `hear` takes the host's words to the device; `ops.tally` is
    the device's own. Fields of one type lie in one tensor, so that `view` gathers them at once.
    """

    def __init__(self, rows: int, pages_per_row: int, longest: int, device: torch.device) -> None:
        self.padding_row = rows
        self.longest = longest  # positions that a row can ever have cached
        self.page_table = torch.zeros(rows + 1, pages_per_row, dtype=torch.int64, device=device)
        self._ints = torch.zeros(len(INTS), rows + 1, dtype=torch.int64, device=device)
        self._floats = torch.zeros(len(FLOATS), rows + 1, device=device)
        self.start, self.root = self._ints[0], self._ints[1]
        self.pages_known = [0] * rows

    def news(self, new: list[Sequence], running: list[Sequence]) -> News:
        """What to tell of `running` sequences, of which some are `new` and known not at all.

        New ones are prefilled: the root of each is its last token, at position `cached`.
        """
        news, wide = News(), self.page_table.shape[1]
        for sequence in new:
            said, row = sequence.request.sampling, _row(sequence)
            branch = 0.0 if sequence.branches else NO_BRANCH
            news.ints.append(
                [row, sequence.cached, sequence.tokens[-1], said.seed, said.top_k, sequence.limit]
            )
            news.floats.append([said.temperature, said.top_p, said.min_p, branch])
            self.pages_known[row] = 0
        for sequence in running:
            row, held = _row(sequence), len(sequence.pages)
            known, self.pages_known[row] = self.pages_known[row], held
            if held > known:
                news.places.extend(range(row * wide + known, row * wide + held))
                news.pages.extend(sequence.pages[known:])
        return news

    def hear(self, news: News) -> None:
        device = self.start.device
        if news.ints:
            ints = upload(news.ints, device).T  # [1 + len(INTS), B]
            self._ints.index_copy_(1, ints[0], ints[1:])
            self._floats.index_copy_(1, ints[0], upload(news.floats, device).T)
        if news.pages:
            pages = upload([news.places, news.pages], device)
            self.page_table.view(-1).index_copy_(0, pages[0], pages[1])

    def view(self, index: torch.Tensor) -> Rows:
        """The rows named by `index` [B] int64."""
        ints = dict(zip(INTS, self._ints.index_select(1, index), strict=True))
        floats = dict(zip(FLOATS, self._floats.index_select(1, index), strict=True))
        return Rows(page_table=self.page_table[index], **ints, **floats)

    def moved(self, index: torch.Tensor) -> Moved:
        """Where a step of these rows goes on from."""
        return Moved(index, self.padding_row, self.start, self.root)


def _row(sequence: Sequence) -> int:
    assert sequence.row is not None, "only running sequences have a row"
    return sequence.row

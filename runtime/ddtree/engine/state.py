"""What the device knows of every row, kept there between steps so that the host may read late."""

from __future__ import annotations

import math

import torch

from ddtree.core.batch import Rows
from ddtree.core.sequence import Sequence
from ddtree.engine.upload import upload
from ddtree.ops.tally import Moved

INTS = ("start", "root", "seed", "top_k", "limit")
FLOATS = ("temperature", "top_p", "min_p", "branch")
NO_BRANCH = -math.inf  # a path that cannot be: the tree of such a row is a chain


class RowState:
    """One entry a row, and a last one that padding uses: page 0 only, start 0.

    Allocated once. `admit` and `extend` are the host's words to the device; `ops.tally` is
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

    def admit(self, sequences: list[Sequence]) -> None:
        """They are prefilled: the root of each is its last token, at position `cached`."""
        ints, floats = list[list[int]](), list[list[float]]()
        for sequence in sequences:
            said, row = sequence.request.sampling, _row(sequence)
            branch = 0.0 if sequence.branches else NO_BRANCH
            ints.append(
                [row, sequence.cached, sequence.tokens[-1], said.seed, said.top_k, sequence.limit]
            )
            floats.append([said.temperature, said.top_p, said.min_p, branch])
            self.pages_known[row] = 0
        news = upload(ints, self.start.device).T  # [1 + len(INTS), B]
        self._ints.index_copy_(1, news[0], news[1:])
        self._floats.index_copy_(1, news[0], upload(floats, self.start.device).T)
        self.extend(sequences)

    def extend(self, sequences: list[Sequence]) -> None:
        """Tell the device of pages it does not know yet."""
        wide = self.page_table.shape[1]
        places, pages = list[int](), list[int]()
        for sequence in sequences:
            row = _row(sequence)
            known, self.pages_known[row] = self.pages_known[row], len(sequence.pages)
            places.extend(range(row * wide + known, row * wide + len(sequence.pages)))
            pages.extend(sequence.pages[known:])
        if pages:
            news = upload([places, pages], self.start.device)
            self.page_table.view(-1).index_copy_(0, news[0], news[1])

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

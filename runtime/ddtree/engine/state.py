"""What the device knows of every row, kept there between steps so that the host may read late."""

from __future__ import annotations

import math

import torch

from ddtree.core.batch import Rows, Verdict
from ddtree.core.sequence import Sequence

INTS = ("start", "root", "seed", "top_k", "limit")
FLOATS = ("temperature", "top_p", "min_p", "branch")
NO_BRANCH = -math.inf  # a path that cannot be: the tree of such a row is a chain


class RowState:
    """One entry a row, and a last one that padding uses: page 0 only, start 0.

    Allocated once. `admit` and `extend` are the host's words to the device; `advance` is the
    device's own. Fields of one type lie in one tensor, so that `view` gathers them at once.
    """

    def __init__(self, rows: int, pages_per_row: int, longest: int, device: torch.device) -> None:
        self.padding_row = rows
        self.longest = longest  # positions that a row can ever have cached
        self.page_table = torch.zeros(rows + 1, pages_per_row, dtype=torch.int64, device=device)
        self._ints = torch.zeros(len(INTS), rows + 1, dtype=torch.int64, device=device)
        self._floats = torch.zeros(len(FLOATS), rows + 1, device=device)
        self.start, self.root = self._ints[0], self._ints[1]
        self.pages_known = [0] * rows

    def admit(self, sequence: Sequence) -> None:
        """The sequence is prefilled: its root is the last token, at position `cached`."""
        row, said = _row(sequence), sequence.request.sampling
        ints = [sequence.cached, sequence.tokens[-1], said.seed, said.top_k, sequence.limit]
        branch = 0.0 if sequence.branches else NO_BRANCH
        self._tell(self._ints[:, row], ints)
        self._tell(self._floats[:, row], [said.temperature, said.top_p, said.min_p, branch])
        self.pages_known[row] = 0
        self.extend(sequence)

    def extend(self, sequence: Sequence) -> None:
        """Tell the device of pages it does not know yet."""
        row = _row(sequence)
        known, pages = self.pages_known[row], sequence.pages
        if len(pages) > known:
            self._tell(self.page_table[row, known : len(pages)], pages[known:])
            self.pages_known[row] = len(pages)

    def view(self, index: torch.Tensor) -> Rows:
        """The rows named by `index` [B] int64."""
        ints = dict(zip(INTS, self._ints[:, index], strict=True))
        floats = dict(zip(FLOATS, self._floats[:, index], strict=True))
        return Rows(page_table=self.page_table[index], **ints, **floats)

    def advance(self, index: torch.Tensor, verdict: Verdict) -> None:
        """Move past the committed tokens; the bonus is the next root. Padding stays where it is."""
        bonus = verdict.tokens.gather(1, (verdict.length - 1).unsqueeze(1)).squeeze(1)
        real = index != self.padding_row
        self.start.index_add_(0, index, verdict.length * real)
        self.root.index_copy_(0, index, bonus)

    def _tell(self, there: torch.Tensor, values: list[int] | list[float]) -> None:
        news = torch.tensor(values, dtype=there.dtype)
        if there.is_cuda:  # a copy from pageable memory would wait for the step
            news = news.pin_memory()
        there.copy_(news, non_blocking=True)


def _row(sequence: Sequence) -> int:
    assert sequence.row is not None, "only running sequences have a row"
    return sequence.row

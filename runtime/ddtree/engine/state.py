"""What the device knows of every row, kept there between steps so that the host may read late."""

from __future__ import annotations

import torch

from ddtree.core.batch import Rows, Verdict
from ddtree.core.sequence import Sequence


class RowState:
    """One entry a row, and a last one that padding uses: page 0 only, start 0.

    Allocated once. `admit` and `extend` are the host's words to the device; `advance` is the
    device's own.
    """

    def __init__(self, rows: int, pages_per_row: int, longest: int, device: torch.device) -> None:
        def ints(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.int64, device=device)

        self.padding_row = rows
        self.longest = longest  # positions that a row can ever have cached
        self.start = ints(rows + 1)
        self.root = ints(rows + 1)
        self.page_table = ints(rows + 1, pages_per_row)
        self.temperature = torch.zeros(rows + 1, device=device)
        self.top_p = torch.ones(rows + 1, device=device)
        self.seed = ints(rows + 1)
        self._pages_known = [0] * rows

    def admit(self, sequence: Sequence) -> None:
        """The sequence is prefilled: its root is the last token, at position `cached`."""
        row, sampling = _row(sequence), sequence.request.sampling
        self.start[row] = sequence.cached
        self.root[row] = sequence.tokens[-1]
        self.temperature[row] = sampling.temperature
        self.top_p[row] = sampling.top_p
        self.seed[row] = sampling.seed
        self._pages_known[row] = 0
        self.extend(sequence)

    def extend(self, sequence: Sequence) -> None:
        """Tell the device of pages it does not know yet."""
        row = _row(sequence)
        known, pages = self._pages_known[row], sequence.pages
        if len(pages) > known:
            news = torch.tensor(pages[known:], dtype=torch.int64)
            if self.page_table.is_cuda:  # a copy from pageable memory would wait for the step
                news = news.pin_memory()
            self.page_table[row, known : len(pages)].copy_(news, non_blocking=True)
            self._pages_known[row] = len(pages)

    def view(self, index: torch.Tensor) -> Rows:
        """The rows named by `index` [B] int64."""
        return Rows(
            start=self.start[index],
            root=self.root[index],
            page_table=self.page_table[index],
            temperature=self.temperature[index],
            top_p=self.top_p[index],
            seed=self.seed[index],
        )

    def advance(self, index: torch.Tensor, verdict: Verdict) -> None:
        """Move past the committed tokens; the bonus is the next root. Padding stays where it is."""
        bonus = verdict.tokens.gather(1, (verdict.length - 1).unsqueeze(1)).squeeze(1)
        real = index != self.padding_row
        self.start.index_add_(0, index, verdict.length * real)
        self.root.index_copy_(0, index, bonus)


def _row(sequence: Sequence) -> int:
    assert sequence.row is not None, "only running sequences have a row"
    return sequence.row

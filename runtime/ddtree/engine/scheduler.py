"""Who runs next: rows, pages and the order of arrival. Ints only, no torch.

A sequence needs pages for what is cached plus one tree. When pages run out the latest arrival
is preempted: its pages go back, its tokens stay, and it is prefilled again later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ddtree.cache.allocator import PageAllocator
from ddtree.core.sequence import Sequence


@dataclass(frozen=True)
class Capacity:
    """The sizes a schedule must respect."""

    pages: int  # usable pages
    page_size: int  # tokens
    rows: int
    reach: int  # positions past the cached ones that a step may write
    prefill_chunk: int  # tokens a step


@dataclass(frozen=True)
class Chunk:
    """Positions begin .. end - 1 of a sequence, to be prefilled."""

    sequence: Sequence
    begin: int
    end: int


@dataclass(frozen=True)
class Plan:
    chunks: list[Chunk]
    decode: list[Sequence]

    @property
    def empty(self) -> bool:
        return not self.chunks and not self.decode


class Scheduler:
    """Continuous batching. `plan` before each step, `finish` when a sequence ends."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.allocator = PageAllocator(capacity.pages + 1)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in order of arrival
        self._rows = list(range(capacity.rows - 1, -1, -1))
        self.preemptions = 0

    def pages_for(self, positions: int) -> int:
        return -(-(positions + self.capacity.reach) // self.capacity.page_size)

    def fits(self, positions: int) -> bool:
        """Whether a sequence of this length can run when it is alone."""
        return self.pages_for(positions) <= self.capacity.pages

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def plan(self) -> Plan:
        """Admit, grow or preempt; then say what to prefill and what to decode."""
        self._admit()
        chunks = self._chunks()
        decode = [s for s in self._grown() if s.prefilled]
        return Plan([c for c in chunks if c.sequence.row is not None], decode)

    def finish(self, sequence: Sequence) -> None:
        """Forget the sequence wherever it is; its row and pages are free again."""
        if sequence.row is None:
            self.waiting.remove(sequence)
            return
        self.running.remove(sequence)
        self._free(sequence)

    def find(self, request_id: str) -> Sequence | None:
        for sequence in [*self.running, *self.waiting]:
            if sequence.request.id == request_id:
                return sequence
        return None

    def check_integrity(self) -> None:
        """Pages and rows are each held exactly once."""
        self.allocator.check_integrity()
        held = [page for s in self.running for page in s.pages]
        assert len(held) == len(set(held)) == self.allocator.used, "pages leaked or shared"
        assert len(self._rows) + len(self.running) == self.capacity.rows, "rows leaked"

    def _admit(self) -> None:
        while self.waiting and self._rows:
            sequence = self.waiting[0]
            pages = self.allocator.allocate(self.pages_for(len(sequence.tokens)))
            if pages is None:
                return
            self.waiting.popleft()
            sequence.row, sequence.pages, sequence.cached = self._rows.pop(), pages, 0
            sequence.admissions += 1
            self.running.append(sequence)

    def _chunks(self) -> list[Chunk]:
        left = self.capacity.prefill_chunk
        chunks = []
        for sequence in self.running:
            if sequence.prefilled or left == 0:
                continue
            begin = sequence.cached
            end = min(sequence.prefill_end, begin + left)
            left -= end - begin
            chunks.append(Chunk(sequence, begin, end))
        return chunks

    def _grown(self) -> list[Sequence]:
        """Running sequences that own the pages of their next step; the latest give way."""
        for sequence in list(self.running):
            while sequence.row is not None and not self._grow(sequence):
                self._preempt(self.running[-1])
        return list(self.running)

    def _grow(self, sequence: Sequence) -> bool:
        missing = self.pages_for(len(sequence.tokens)) - len(sequence.pages)
        if missing <= 0:
            return True
        pages = self.allocator.allocate(missing)
        if pages is None:
            return False
        sequence.pages.extend(pages)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._free(sequence)
        self.waiting.appendleft(sequence)
        self.preemptions += 1

    def _free(self, sequence: Sequence) -> None:
        assert sequence.row is not None
        self.allocator.release(sequence.pages)
        self._rows.append(sequence.row)
        sequence.row, sequence.pages, sequence.cached = None, [], 0
        sequence.on_device = False

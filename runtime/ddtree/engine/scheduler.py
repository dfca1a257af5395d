"""Who runs next: rows, pages and the order of arrival. Ints only, no torch.

A sequence needs pages for what is cached plus one tree. When pages run out the latest arrival
is preempted: its pages go back, its tokens stay, and it is prefilled again later. Full blocks
that a prefill wrote are shared with whoever begins with the same tokens; blocks that a tree wrote
are not, so that a prompt found in the cache is what prefilling it would have given.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ddtree.cache.allocator import PageAllocator
from ddtree.cache.prefix import extend_keys
from ddtree.core.sequence import Sequence
from ddtree.engine.company import Company


@dataclass(frozen=True)
class Capacity:
    """The sizes a schedule must respect."""

    pages: int  # usable pages
    page_size: int  # tokens
    rows: int
    reach: int  # positions past the cached ones that a step may write
    prefill_chunk: int  # tokens a step
    prefix_cache: bool = True  # whether blocks of prompts are kept and shared


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

    def __init__(self, capacity: Capacity, company: Company | None = None) -> None:
        """`company`: whom prompts wait for; None: for nobody."""
        self.capacity = capacity
        self._company = company or Company(0.0, capacity.prefill_chunk)
        self.allocator = PageAllocator(capacity.pages + 1)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in order of arrival
        # tokens of a sequence that can run when it is alone
        self.longest = capacity.pages * capacity.page_size - capacity.reach
        self._rows = list(range(capacity.rows - 1, -1, -1))
        self.preemptions = 0
        self.reused = 0  # prompt tokens found in the cache

    def pages_for(self, positions: int) -> int:
        return -(-(positions + self.capacity.reach) // self.capacity.page_size)

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def plan(self) -> Plan:
        """Admit, grow or preempt; then say what to prefill and what to decode."""
        self._admit()
        decode = list[Sequence]()
        raw = list[Sequence]()
        for sequence in self.running:
            (decode if sequence.prefilled else raw).append(sequence)
        begins = raw and self._company.begins(raw, len(decode))
        chunks = self._chunks(raw) if begins else []
        if self._grow():  # some lost their row
            decode = [sequence for sequence in decode if sequence.row is not None]
            chunks = [chunk for chunk in chunks if chunk.sequence.row is not None]
        return Plan(chunks, decode)

    def written(self, chunks: list[Chunk]) -> None:
        """The chunks are written: their full blocks can be found from now on."""
        size = self.capacity.page_size
        for chunk in chunks:
            keys = chunk.sequence.keys
            for block in range(chunk.begin // size, min(chunk.end // size, len(keys))):
                self.allocator.publish(chunk.sequence.pages[block], keys[block])

    def finish(self, sequence: Sequence, *, poisoned: bool = False) -> None:
        """Forget the sequence wherever it is; its row and pages are free again.

        `poisoned`: what it wrote is not to be found by others.
        """
        if sequence.row is None:
            self.waiting.remove(sequence)
            return
        if poisoned:
            self.allocator.withdraw(sequence.pages)
        self.running.remove(sequence)
        self._free(sequence)

    def find(self, request_id: str) -> Sequence | None:
        for sequence in [*self.running, *self.waiting]:
            if sequence.request.id == request_id:
                return sequence
        return None

    def check_integrity(self) -> None:
        """Rows are held once, pages by those who know of them."""
        self.allocator.check_integrity(page for s in self.running for page in s.pages)
        assert all(len(s.pages) == len(set(s.pages)) for s in self.running), "a page serves twice"
        assert len(self._rows) + len(self.running) == self.capacity.rows, "rows leaked"

    def _admit(self) -> None:
        while self.waiting and self._rows:
            sequence = self.waiting[0]
            if self.capacity.prefix_cache:
                extend_keys(sequence.keys, sequence.tokens, self.capacity.page_size)
            found = self.allocator.share(self._wanted(sequence))
            missing = self.pages_for(len(sequence.tokens)) - len(found)
            pages = self.allocator.allocate(missing)
            if pages is None:
                self.allocator.release(found)
                return
            self.waiting.popleft()
            sequence.row, sequence.pages, sequence.cached = self._rows.pop(), found + pages, 0
            sequence.admissions += 1
            self._reused(sequence, len(found))
            self.running.append(sequence)

    def _wanted(self, sequence: Sequence) -> list[bytes]:
        """Keys of the blocks it could take over next: the last token of a prompt is its own."""
        size = self.capacity.page_size
        if sequence.cached % size:
            return []
        last = sequence.prefill_end - (0 if sequence.answer_length else 1)
        return sequence.keys[sequence.cached // size : last // size]

    def _reuse(self, sequence: Sequence) -> None:
        """Take over what others have prefilled since, in place of pages of its own."""
        begin = sequence.cached // self.capacity.page_size
        found = self.allocator.share(self._wanted(sequence))
        self.allocator.release(sequence.pages[begin : begin + len(found)])
        sequence.pages[begin : begin + len(found)] = found
        self._reused(sequence, len(found))

    def _reused(self, sequence: Sequence, blocks: int) -> None:
        tokens = blocks * self.capacity.page_size
        sequence.cached += tokens
        if sequence.admissions == 1:
            sequence.reused += tokens
            self.reused += tokens

    def _chunks(self, raw: list[Sequence]) -> list[Chunk]:
        """Share the step's tokens: whoever fits into an equal part, then in order of arrival.

        Nobody computes a block that another one begins in the same step: the next step finds it.
        """
        size, left = self.capacity.page_size, self.capacity.prefill_chunk
        for sequence in raw:
            self._reuse(sequence)
        due = [sequence for sequence in raw if not sequence.prefilled]
        rest = {sequence: sequence.prefill_end - sequence.cached for sequence in due}
        short = [sequence for sequence in due if rest[sequence] * len(due) <= left]
        ends, begun = dict[Sequence, int](), set[bytes]()
        for sequence in dict.fromkeys([*short, *due]):
            if left and begun.isdisjoint(self._wanted(sequence)[:1]):
                taken = min(left, rest[sequence])
                ends[sequence] = sequence.cached + taken
                left -= taken
                block = sequence.cached // size
                begun.update(sequence.keys[block : block + 1])
        return [Chunk(s, s.cached, ends[s]) for s in due if s in ends]

    def _grow(self) -> bool:
        """Every sequence gets the pages of its next step; the latest give way: did any?"""
        size, reach = self.capacity.page_size, self.capacity.reach
        before = self.preemptions
        for sequence in list(self.running):
            while sequence.row is not None:
                if len(sequence.tokens) + reach <= len(sequence.pages) * size:
                    break
                missing = self.pages_for(len(sequence.tokens)) - len(sequence.pages)
                pages = self.allocator.allocate(missing)
                if pages is None:
                    self._preempt(self.running[-1])
                else:
                    sequence.pages.extend(pages)
        return self.preemptions > before

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

"""Pages are given out once, come back once, and none is lost."""

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import integers

from ddtree.cache.allocator import PageAllocator


class Borrowers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.allocator = PageAllocator(17)
        self.held: list[list[int]] = []

    @rule(count=integers(0, 9))
    def borrow(self, count: int) -> None:
        before = self.allocator.free
        pages = self.allocator.allocate(count)
        if pages is None:
            assert count > before == self.allocator.free
        else:
            assert len(set(pages)) == count and 0 not in pages
            self.held.append(pages)

    @precondition(lambda self: self.held)
    @rule(which=integers(0, 99))
    def give_back(self, which: int) -> None:
        self.allocator.release(self.held.pop(which % len(self.held)))

    @invariant()
    def nothing_is_lost(self) -> None:
        self.allocator.check_integrity()
        assert self.allocator.used == sum(len(pages) for pages in self.held)


Borrowers.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestBorrowers = Borrowers.TestCase


def test_a_double_free_is_an_error() -> None:
    allocator = PageAllocator(4)
    pages = allocator.allocate(2)
    assert pages is not None
    allocator.release(pages)
    with pytest.raises(ValueError, match="not in use"):
        allocator.release(pages)

"""Pages are given out once, come back once, and none is lost."""

from itertools import takewhile

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import integers

from ddtree.cache.allocator import PageAllocator


class Borrowers(RuleBasedStateMachine):
    """Holders of pages, and a plain model of what the keyed pages hold."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = PageAllocator(17)
        self.held: list[list[int]] = []
        self.holds: dict[int, bytes] = {}  # page: the key that finds it

    @rule(count=integers(0, 9))
    def borrow(self, count: int) -> None:
        before = self.allocator.free
        pages = self.allocator.allocate(count)
        if pages is None:
            assert count > before == self.allocator.free
            return
        assert len(set(pages)) == count and 0 not in pages
        for page in pages:
            self.holds.pop(page, None)  # the new holder writes over it
        self.held.append(pages)

    @precondition(lambda self: self.held)
    @rule(which=integers(0, 99))
    def give_back(self, which: int) -> None:
        self.allocator.release(self.held.pop(which % len(self.held)))

    @precondition(lambda self: any(self.held))
    @rule(which=integers(0, 99), key=integers(0, 7))
    def publish(self, which: int, key: int) -> None:
        pages = [page for pages in self.held for page in pages]
        page = pages[which % len(pages)]
        self.allocator.publish(page, b"%d" % key)
        if page not in self.holds and b"%d" % key not in self.holds.values():
            self.holds[page] = b"%d" % key

    @rule(first=integers(0, 7))
    def share(self, first: int) -> None:
        keys = [b"%d" % key for key in range(first, 8)]
        found = self.allocator.share(keys)
        known = takewhile(lambda key: key in self.holds.values(), keys)
        assert [self.holds[page] for page in found] == list(known)
        self.held.append(found)

    @precondition(lambda self: any(self.held))
    @rule(which=integers(0, 99))
    def withdraw(self, which: int) -> None:
        pages = [page for pages in self.held for page in pages]
        self.allocator.withdraw([pages[which % len(pages)]])
        self.holds.pop(pages[which % len(pages)], None)

    @invariant()
    def nothing_is_lost(self) -> None:
        held = [page for pages in self.held for page in pages]
        self.allocator.check_integrity(held)
        assert self.allocator.used == len(set(held))
        assert self.allocator.free == 16 - len(set(held))


Borrowers.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestBorrowers = Borrowers.TestCase


def test_a_double_free_is_an_error() -> None:
    allocator = PageAllocator(4)
    pages = allocator.allocate(2)
    assert pages is not None
    allocator.release(pages)
    with pytest.raises(ValueError, match="not in use"):
        allocator.release(pages)


def _published(allocator: PageAllocator, *keys: bytes) -> list[int]:
    pages = allocator.allocate(len(keys))
    assert pages is not None
    for page, key in zip(pages, keys, strict=True):
        allocator.publish(page, key)
    return pages


def test_the_longest_idle_page_goes_first_and_the_end_of_a_prompt_before_its_beginning() -> None:
    allocator = PageAllocator(6)
    old, new = _published(allocator, b"a", b"b"), _published(allocator, b"c", b"d")
    allocator.release(old)
    allocator.release(new)
    assert allocator.free == 5
    assert allocator.allocate(2) is not None  # the free one, and b's
    assert allocator.share([b"a", b"b"]) == old[:1]
    assert allocator.allocate(1) is not None  # d's: a is in use again
    assert allocator.share([b"c", b"d"]) == new[:1]


def test_a_key_keeps_its_first_page() -> None:
    allocator = PageAllocator(4)
    first, second = _published(allocator, b"a"), _published(allocator, b"a")
    allocator.release(second)
    assert allocator.share([b"a"]) == first
    allocator.check_integrity([*first, *first])


def test_a_page_that_nobody_uses_cannot_be_published() -> None:
    with pytest.raises(ValueError, match="not in use"):
        PageAllocator(4).publish(1, b"a")

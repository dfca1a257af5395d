"""Which pages are free, and which hold a block that may be asked for again. No torch.

A page is free, used by one sequence or more, or idle: nobody uses it, but its content has a key.
Idle pages are given out like free ones, the longest idle first, so remembering costs nobody a
page. Page 0 is never given out: padding writes there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class PageAllocator:
    """Hands out pages and takes them back. Raises ValueError on a double free."""

    def __init__(self, pages: int) -> None:
        if pages < 2:
            raise ValueError("a cache needs at least two pages, the first is scratch")
        self._free = list(range(pages - 1, 0, -1))
        self._users: dict[int, int] = {}  # how many sequences use a page
        self._idle: dict[int, None] = {}  # in the order they fell idle
        self._key_of: dict[int, bytes] = {}
        self._page_of: dict[bytes, int] = {}
        self.pages = pages - 1

    @property
    def free(self) -> int:
        """Pages that can be allocated, idle ones included."""
        return len(self._free) + len(self._idle)

    @property
    def used(self) -> int:
        return len(self._users)

    def allocate(self, count: int) -> list[int] | None:
        """`count` pages, or None when there are too few; then nothing is taken."""
        if count > self.free:
            return None
        while len(self._free) < count:
            self.withdraw([next(iter(self._idle))])
        taken = [self._free.pop() for _ in range(count)]
        self._users.update(dict.fromkeys(taken, 1))
        return taken

    def share(self, keys: Sequence[bytes]) -> list[int]:
        """The pages of the longest beginning of `keys` that is known; each gets one user more."""
        found = []
        for key in keys:
            page = self._page_of.get(key)
            if page is None:
                break
            self._idle.pop(page, None)
            self._users[page] = self._users.get(page, 0) + 1
            found.append(page)
        return found

    def publish(self, page: int, key: bytes) -> None:
        """This used page holds what `key` names, from now on. The first page of a key keeps it."""
        if page not in self._users:
            raise ValueError(f"page {page} is not in use")
        if key not in self._page_of and page not in self._key_of:
            self._key_of[page], self._page_of[key] = key, page

    def withdraw(self, pages: Iterable[int]) -> None:
        """Nobody shall find these pages again: their content cannot be trusted."""
        for page in pages:
            key = self._key_of.pop(page, None)
            if key is not None:
                del self._page_of[key]
            if page in self._idle:
                del self._idle[page]
                self._free.append(page)

    def release(self, pages: Sequence[int]) -> None:
        """One user less. The last pages fall idle first: without them the others are of use."""
        for page in reversed(pages):
            if page not in self._users:
                raise ValueError(f"page {page} is not in use")
            self._users[page] -= 1
            if self._users[page]:
                continue
            del self._users[page]
            if page in self._key_of:
                self._idle[page] = None
            else:
                self._free.append(page)

    def check_integrity(self, held: Iterable[int]) -> None:
        """Every page is free, idle or used, exactly once; `held` names each user's pages."""
        states = [*self._free, *self._idle, *self._users]
        assert sorted(states) == list(range(1, self.pages + 1)), "pages leaked or doubled"
        assert Counter(held) == self._users, "a page has other users than those who hold it"
        assert {key: page for page, key in self._key_of.items()} == self._page_of, "keys differ"
        assert self._idle.keys() <= self._key_of.keys(), "an idle page holds nothing"
        assert not self._key_of.keys() & set(self._free), "a free page can be found"

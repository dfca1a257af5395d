"""Which pages are free: ints only, no torch. Page 0 is never given out: padding writes there."""

from __future__ import annotations


class PageAllocator:
    """Hands out pages and takes them back. Raises ValueError on a double free."""

    def __init__(self, pages: int) -> None:
        if pages < 2:
            raise ValueError("a cache needs at least two pages, the first is scratch")
        self._free = list(range(pages - 1, 0, -1))
        self._used: set[int] = set()
        self.pages = pages - 1

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return len(self._used)

    def allocate(self, count: int) -> list[int] | None:
        """`count` pages, or None when there are too few; then nothing is taken."""
        if count > len(self._free):
            return None
        taken = [self._free.pop() for _ in range(count)]
        self._used.update(taken)
        return taken

    def release(self, pages: list[int]) -> None:
        for page in pages:
            if page not in self._used:
                raise ValueError(f"page {page} is not in use")
            self._used.remove(page)
            self._free.append(page)

    def check_integrity(self) -> None:
        """Every page is either free or used, exactly once."""
        assert len(self._free) + len(self._used) == self.pages, "pages leaked or doubled"
        assert not self._used.intersection(self._free), "a page is both free and used"

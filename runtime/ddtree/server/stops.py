"""Finds stop strings in text that arrives in pieces.

The cut depends on the text alone, never on where the pieces end: the stop string that is
complete first wins, and of several complete at the same character the longest.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopFinder:
    """`push` returns the text that is certain; what may begin a stop string is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None  # the stop string that ended the text

    def push(self, text: str) -> str:
        if not self._stops or self.found is not None:
            return "" if self.found is not None else text
        self._held += text
        cut = self._cut()
        safe = cut if cut is not None else len(self._held) - self._doubtful()
        certain, self._held = self._held[:safe], "" if cut is not None else self._held[safe:]
        return certain

    def flush(self) -> str:
        """The text is over: what was held back is text after all."""
        rest, self._held = self._held, ""
        return rest

    def _cut(self) -> int | None:
        """Where the first complete stop string begins."""
        hits = [(at + len(s), at, s) for s in self._stops if (at := self._held.find(s)) >= 0]
        if not hits:
            return None
        _, at, self.found = min(hits)
        return at

    def _doubtful(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = min(len(self._held), max(len(s) for s in self._stops) - 1)
        for length in range(longest, 0, -1):
            if any(s.startswith(self._held[-length:]) for s in self._stops):
                return length
        return 0

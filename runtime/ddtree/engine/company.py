"""Whether prompts that have a row begin now, or wait for others to be prefilled with. No torch.

One prefill costs something, whatever its size, and while it runs every answer stands still: that
costs the answers as much as waiting costs the prompts once their waits, together, are as long.
Whoever stops there pays least where company comes evenly.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ddtree.core.sequence import Sequence

PATIENCE = 0.05  # seconds that no prompt waits longer than, but for the step that is under way


class Company:
    """`begins` before each step that could prefill."""

    def __init__(
        self,
        seconds: float,
        tokens: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`seconds` of the smallest prefill; `tokens` that one takes at most."""
        self.seconds = seconds
        self.tokens = tokens
        self._clock = clock
        self._since: dict[Sequence, float] = {}  # those that wait, and from when
        self._begun: set[Sequence] = set()

    def begins(self, raw: list[Sequence], answering: int) -> bool:
        """Whether to prefill now. `raw` are not prefilled yet; all of them begin, or none.

        What is under way goes on, and takes the others along. So does one that lost its row
        before: it has waited.
        """
        now = self._clock()
        self._since = {sequence: self._since.get(sequence, now) for sequence in raw}
        self._begun.intersection_update(raw)
        going = self._begun or any(sequence.admissions > 1 for sequence in raw)
        if not going and not self._enough(now, answering):
            return False
        self._begun.update(raw)
        return True

    def _enough(self, now: float, answering: int) -> bool:
        """Whether they have waited for long enough, or more of them would not fit."""
        waits = [now - since for since in self._since.values()]
        return (
            sum(waits) >= answering * self.seconds
            or max(waits) >= PATIENCE
            or sum(s.prefill_end - s.cached for s in self._since) >= self.tokens
        )

"""Adaptive budget: the captured budget that should commit most tokens per second, each step.

Expected tokens come from the trees' own probabilities (DDTree, Proposition 1: the sum of the
nodes' path probabilities), corrected by how often the target agreed with them; seconds come
from a table that was measured when the graphs were captured. Plain Python: no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SMOOTHING = 0.2  # weight of the newest step; about the last five steps count
PROBE_EVERY = 64  # steps without drafting before one small tree is tried again


@dataclass(frozen=True)
class StepTimes:
    """Measured seconds of one step by (batch, budget); budget 0 is autoregressive."""

    seconds: dict[tuple[int, int], float]

    def at(self, batch: int, budget: int) -> float:
        """Of the smallest measured batch that holds this one, else the largest."""
        batches = sorted(b for b, n in self.seconds if n == budget)
        holding = [b for b in batches if b >= batch] or batches[-1:]
        return self.seconds[holding[0], budget]

    @property
    def budgets(self) -> list[int]:
        return sorted({budget for _, budget in self.seconds})


@dataclass
class Outlook:
    """What one sequence's trees promised lately: expected accepted drafts by budget."""

    mass: dict[int, float] = field(default_factory=dict)

    def seen(self, mass: dict[int, float]) -> None:
        for budget, value in mass.items():
            before = self.mass.get(budget, value)
            self.mass[budget] = before + SMOOTHING * (value - before)


class BudgetChooser:
    """`choose` before a step, `learn` after it."""

    def __init__(self, times: StepTimes) -> None:
        self.times = times
        self.trust = 1.0  # accepted over promised, smoothed
        self._undrafted = 0
        self._smallest = min(budget for budget in times.budgets if budget)

    def choose(self, outlooks: list[Outlook]) -> int:
        """The budget with the best expected tokens per second for these sequences.

        A sequence without history counts as well served by the largest tree: it gets one.
        """
        batch = len(outlooks)

        def rate(budget: int) -> float:
            promised = sum(o.mass.get(budget, float(budget > 0)) for o in outlooks)
            return (batch + self.trust * promised) / self.times.at(batch, budget)

        best = max(self.times.budgets, key=rate)
        self._undrafted = 0 if best else self._undrafted + 1
        if self._undrafted >= PROBE_EVERY:
            self._undrafted = 0
            return self._smallest
        return best

    def learn(self, promised: float, accepted: float) -> None:
        """One step's promise over all rows against what was accepted."""
        if promised > 0:
            ratio = min(2.0, accepted / promised)
            self.trust += SMOOTHING / 4 * (ratio - self.trust)

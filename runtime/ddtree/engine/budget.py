"""Adaptive budget: the captured budget that should commit most tokens per second, each step.

Expected tokens come from the trees' own probabilities (DDTree, Proposition 1: the sum of the
nodes' path probabilities), corrected by how often the target agreed with them. Seconds are those
of the steps that were served, seeded by a table measured at start. Plain Python: no torch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SMOOTHING = 0.2  # weight of a sequence's newest tree; about the last five count
USUAL = 0.05  # weight of the newest step in what a new sequence is expected to bring
TIMING = 0.1  # weight of the newest step's seconds
TRUSTING = 0.005  # how fast promises are forgotten, a step with drafts
PRIOR = 3.0  # accepted drafts that a first tree is expected to bring
DOUBT = 50.0  # promised drafts after which a budget's own record counts half
UNSURE = 0.1  # relative error of seconds that were never served
SURE = 0.01  # what a change of budget must promise to gain, at least
TRIAL_STEPS = 2
CLOSE, CLOSE_TRIAL_STEPS = 0.9, 8  # one that seems nearly as good is tried for longer
TRIAL_AFTER = 32.0  # steps from a change of budget to the first trial
TRIAL_RARER = 1.5  # and how much longer to each one after it,
TRIAL_AT_LEAST = 2048.0  # but not longer than this
HOPE = 0.5  # how much better a budget may be than it seems before it is served; less after


class StepTimes:
    """Seconds of one step by (batch, budget): learnt where served, else by the nearest budget's.

    A tree is nearer to any other tree than to a step without one, which may be limited by the host.
    A batch counts as the smallest measured one that holds it, as in the captured graphs.
    """

    def __init__(self, seconds: dict[tuple[int, int], float]) -> None:
        self.batches = sorted({batch for batch, _ in seconds})
        self.budgets = sorted({budget for _, budget in seconds})
        table = [[seconds[batch, budget] for budget in self.budgets] for batch in self.batches]
        self._measured: Floats = np.array(table)  # [batches, budgets]
        self._ratio = np.ones_like(self._measured)  # served over measured
        self._error = np.full_like(self._measured, UNSURE)  # mean relative deviation
        self.served = np.zeros_like(self._measured)  # steps
        column = np.arange(len(self.budgets))
        unlike = (column == 0)[:, None] != (column == 0)  # one with a tree and one without
        self._apart = np.abs(column[:, None] - column) + len(column) * unlike

    def bucket(self, batch: int) -> int:
        """Index of the batch that stands for this one."""
        return min(int(np.searchsorted(self.batches, batch)), len(self.batches) - 1)

    def at(self, batch: int) -> tuple[Floats, Floats]:
        """For every budget: seconds, and the relative error of that estimate."""
        row = self.bucket(batch)
        return self._measured[row] * self._ratio[row], self._error[row]

    def learn(self, batch: int, budget: int, seconds: float) -> None:
        """A step that was served. An outlier counts as a quarter more or less than expected."""
        row, column = self.bucket(batch), self.budgets.index(budget)
        ratio = seconds / self._measured[row, column]
        before, served = self._ratio[row, column], self.served[row, column]
        if served > 2:
            ratio = min(max(ratio, before * 0.75), before * 1.25)
        if served:
            self._error[row, column] += TIMING * (
                abs(ratio / before - 1) - self._error[row, column]
            )
        self._ratio[row, column] = before + max(TIMING, 1 / (served + 1)) * (ratio - before)
        self.served[row, column] += 1
        known = np.flatnonzero(self.served[row])
        nearest = known[self._apart[known].argmin(0)]
        self._ratio[row] = self._ratio[row, nearest]


class BudgetChooser:
    """`choose` before a step; `promised`, `accepted` and `times.learn` after it.

    Rows are those of the engine's state. What is known of a row's trees is kept until `welcome`.
    """

    def __init__(self, times: StepTimes, rows: int) -> None:
        self.times = times
        self.budgets = times.budgets
        self._promise = np.full((rows, len(self.budgets)), np.nan)  # accepted drafts a step
        self._usual = np.where(np.array(self.budgets) > 0, PRIOR, 0.0)  # of all rows
        self._drafted = 0  # steps
        self._sums = np.zeros((2, len(self.budgets)))  # accepted and promised drafts, fading
        self._step = 0
        self._used = np.zeros((len(times.batches), len(self.budgets)))  # at which step, at last
        self._current = (-1, 0)  # bucket of the batch, index of the budget
        self._trial = (0, 0)  # until which step, index of the budget
        self._pause = TRIAL_AFTER  # steps to the next trial

    def welcome(self, row: int, *, drafts: bool) -> None:
        """Another sequence has this row; one that does not draft will never be accepted."""
        self._promise[row] = np.nan if drafts else 0.0

    def choose(self, rows: list[int]) -> int:
        """The budget with the best expected tokens per second for a batch of these rows."""
        self._step += 1
        rate, margin = self._outlook(rows)
        bucket = self.times.bucket(len(rows))
        best = self._settled(bucket, rate, margin)
        chosen = self._tested(bucket, best, rate)
        self._used[bucket, chosen] = self._step
        return self.budgets[chosen]

    def promised(self, rows: list[int], promise: Floats, budget: int) -> None:
        """What the trees of a step promised, [B, budgets but 0], and which budget was verified."""
        if not rows:
            return
        whole = np.concatenate([np.zeros((len(rows), 1)), promise], 1)
        before = self._promise[rows]
        before = np.where(np.isnan(before), whole, before)
        self._promise[rows] = before + SMOOTHING * (whole - before)
        self._drafted += 1
        self._usual += max(USUAL, 1 / self._drafted) * (whole.mean(0) - self._usual)
        self._sums[1, self.budgets.index(budget)] += whole[:, self.budgets.index(budget)].sum()

    def accepted(self, drafts: int, budget: int) -> None:
        """How many of the promised drafts a step with this budget brought."""
        column = self.budgets.index(budget)
        self._sums[0, column] += drafts
        self._sums[:, column] *= 1 - TRUSTING

    def _outlook(self, rows: list[int]) -> tuple[Floats, Floats]:
        """For every budget: tokens per second, and the gain over ar that is certain."""
        seconds, error = self.times.at(len(rows))
        promise = self._promise[rows]
        drafts = np.where(np.isnan(promise), self._usual, promise).sum(0)
        rate: Floats = (len(rows) + self._trust() * drafts) / seconds
        return rate, np.maximum(SURE, error[0] / 4 + error / 4)

    def _trust(self) -> Floats:
        """Accepted over promised: a budget's own, drawn to that of all the less it was used."""
        accepted, promised = self._sums
        common = (accepted.sum() + 1) / (promised.sum() + 1)
        trust: Floats = (accepted + DOUBT * common) / (promised + DOUBT)
        return trust

    def _settled(self, bucket: int, rate: Floats, margin: Floats) -> int:
        """The best budget; the one before stays until another is clearly better, ar wins ties."""
        able = rate / np.where(np.arange(len(rate)) > 0, 1 + margin, 1.0)
        best = int(able.argmax())
        before, index = self._current
        if before == bucket and able[best] < able[index] * (1 + SURE):
            best = index
        if (bucket, best) != self._current:
            self._current, self._pause = (bucket, best), TRIAL_AFTER
            self._trial = (self._step, best)
        return best

    def _tested(self, bucket: int, best: int, rate: Floats) -> int:
        """`best`, or now and then the budget that was used longest ago and may yet be better."""
        until, index = self._trial
        if self._step < until:
            return index
        if self._step < until + self._pause:
            return best
        hope = 1 + HOPE / np.sqrt(1 + self.times.served[bucket])
        hopeful = np.flatnonzero(rate * hope > rate[best])
        hopeful = hopeful[hopeful != best]
        if len(hopeful):
            index = int(hopeful[self._used[bucket, hopeful].argmin()])
        elif best == 0 and self._pause >= TRIAL_AT_LEAST:
            index = 1  # whoever never drafts never learns that drafts have become good
        else:
            index = best
        steps = CLOSE_TRIAL_STEPS if rate[index] > CLOSE * rate[best] else TRIAL_STEPS
        self._trial = (self._step + steps, index)
        self._pause = min(self._pause * TRIAL_RARER, TRIAL_AT_LEAST)
        return index

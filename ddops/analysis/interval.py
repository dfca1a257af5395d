"""How sure a ratio of paired measurements is: its 95 % interval and its effect size. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

# Student's t at 0.975 for 1, 2, ... degrees of freedom.
_T: Final = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
)  # fmt: skip
_Z: Final = 1.959964


@dataclass(frozen=True)
class Effect:
    """What the pairs say together, on the scale where doubling and halving are equally far."""

    ratio: float  # geometric mean of the pairs' ratios
    low: float  # of the 95 % interval of `ratio`, by Student's t over the pairs
    high: float
    size: float | None  # Cohen's d of pairs: mean / deviation of the log ratios; None without any
    pairs: int

    @property
    def settled(self) -> bool:
        """The interval lies on one side of 1."""
        return self.low > 1 or self.high < 1


def effect(ratios: Sequence[float]) -> Effect | None:
    """None below two pairs: one ratio says nothing of how far the next may be off."""
    if len(ratios) < 2:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    mean, deviation = fmean(logs), stdev(logs)
    reach = student(len(logs) - 1) * deviation / math.sqrt(len(logs))
    return Effect(
        ratio=math.exp(mean),
        low=math.exp(mean - reach),
        high=math.exp(mean + reach),
        size=mean / deviation if deviation > 0 else None,
        pairs=len(logs),
    )


def student(freedom: int) -> float:
    """Student's t at 0.975: from the table, beyond it by the expansion around the normal."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / freedom + second / freedom**2

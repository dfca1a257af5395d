"""A number known only between two ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    @classmethod
    def of(cls, *values: float) -> Range:
        return cls(min(values), max(values))

    def per(self, step_s: Range) -> Range:
        """Tokens a second, of tokens a step."""
        return Range(self.low / step_s.high, self.high / step_s.low)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

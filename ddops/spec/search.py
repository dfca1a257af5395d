"""What `ddops search` varies, and what it has tried."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from ddops.spec.base import Word
from ddops.spec.matrix import Variant
from ddops.spec.record import FailureKind

Axis = Literal["graphs", "nvls", "parallel"]


class Axes(Word):
    """The first value of each axis is where the search begins; None: it stays as deployed."""

    budgets: tuple[int, ...] = Field(min_length=1)
    graphs: tuple[Literal["auto", "off"] | None, ...] = (None,)
    nvls: tuple[Literal["on", "off"] | None, ...] = (None,)
    parallel: tuple[Literal["tp", "ep"] | None, ...] = (None,)

    @field_validator("budgets")
    @classmethod
    def _budgets_rise(cls, budgets: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(budgets)))


class Tried(Word):
    """One start of the service and what came of it."""

    variant: Variant
    tok_s: float | None = None  # None: it failed
    accept: float | None = None
    failure: FailureKind | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None


class Wall(Word):
    """Between two budgets of one setting: the last that works, the first that fails."""

    works: Variant
    fails: Variant
    failure: FailureKind
    cause: Axis | None  # what had to be changed for the failing budget to work; None: not found


class Findings(Word):
    baseline: Tried | None  # autoregressive
    best: Tried | None  # the fastest draft tree that works
    walls: tuple[Wall, ...]
    failed: tuple[Tried, ...]

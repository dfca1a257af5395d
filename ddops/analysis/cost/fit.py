"""What a step costs, fitted to measured steps: so much a step, a draft, a request, a node. Pure.

The bytes of a step take what they take at peak bandwidth; what is fitted is the time beyond. Least
squares of the relative error over costs that are never negative: a cost that would be is left out
and the others are fitted again. Nothing here knows the engine: a fit holds near what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ddops.errors import UsageError

FEWEST = 4  # steps that can be fitted to
_NOISE = 0.05  # of its size: what varies less than that is told by nothing


@dataclass(frozen=True)
class Step:
    """One measured step, or one to predict, by what it has to do."""

    name: str
    drafts: bool
    requests: float  # in flight
    nodes: float  # verified in all, the roots included
    prefills: float = 0.0  # of other requests, that fall into this step
    bytes_s: float = 0.0  # what must be read, at peak bandwidth

    def amounts(self) -> Mapping[str, float]:
        return {
            "a step": 1.0,
            "a draft": float(self.drafts),
            "a request": self.requests,
            "a node": self.nodes,
            "a prefill between": self.prefills,
        }


@dataclass(frozen=True)
class Timed:
    step: Step
    seconds: float


@dataclass(frozen=True)
class Fit:
    """Seconds by term, beyond the bytes; `largest` is the most of each that was measured."""

    costs: Mapping[str, float]
    largest: Mapping[str, float]

    def parts(self, step: Step) -> Mapping[str, float]:
        amounts = step.amounts()
        return {
            "bytes": step.bytes_s,
            **{name: cost * amounts[name] for name, cost in self.costs.items()},
        }

    def seconds(self, step: Step) -> float:
        return sum(self.parts(step).values())

    def beyond(self, step: Step) -> tuple[str, ...]:
        """Terms of which `step` has more than was ever measured: there it is a guess."""
        return tuple(
            name
            for name, amount in step.amounts().items()
            if amount > self.largest[name] * (1 + _NOISE)
        )


@dataclass(frozen=True)
class Held:
    """A step predicted by a fit that had not seen it."""

    name: str
    measured_s: float
    predicted_s: float
    beyond: tuple[str, ...]  # it has more of these than the fit had seen

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1


def fit(timed: Sequence[Timed]) -> Fit:
    """Raises `UsageError` for fewer than four steps: they would agree with anything."""
    if len(timed) < FEWEST:
        raise UsageError(
            f"{len(timed)} measured steps are too few to tell what a step costs",
            hint="measure budgets and concurrencies: `ddops bench local --matrix`",
        )
    names = _informative([one.step for one in timed])
    costs: dict[str, float] = {}
    while names:
        costs = _least_squares(timed, names)
        worst = min(names, key=lambda name: costs[name])
        if costs[worst] >= 0:
            break
        names.remove(worst)
    kept = {name: costs[name] for name in names}
    return Fit(MappingProxyType(kept), MappingProxyType(_largest(timed)))


def held_out(timed: Sequence[Timed], groups: Sequence[Sequence[Timed]]) -> tuple[Held, ...]:
    """Every step of `groups`, predicted from all steps that are not of its group."""
    made = []
    for group in groups:
        found = fit([one for one in timed if one not in group])
        made += [_held(found, one) for one in group]
    return tuple(made)


def _held(found: Fit, one: Timed) -> Held:
    return Held(one.step.name, one.seconds, found.seconds(one.step), found.beyond(one.step))


def _informative(steps: Sequence[Step]) -> list[str]:
    """Terms that differ between the steps, and `a step`: the others cannot be told from it."""
    amounts = [step.amounts() for step in steps]
    return [name for name in amounts[0] if name == "a step" or _varies([a[name] for a in amounts])]


def _varies(values: Sequence[float]) -> bool:
    return max(values) - min(values) > _NOISE * max(map(abs, values))


def _largest(timed: Sequence[Timed]) -> dict[str, float]:
    amounts = [one.step.amounts() for one in timed]
    return {name: max(each[name] for each in amounts) for name in amounts[0]}


def _least_squares(timed: Sequence[Timed], names: Sequence[str]) -> dict[str, float]:
    import numpy as np

    rows = [[one.step.amounts()[name] / one.seconds for name in names] for one in timed]
    wanted = [1 - one.step.bytes_s / one.seconds for one in timed]
    found, *_ = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)
    return {name: float(cost) for name, cost in zip(names, found, strict=True)}

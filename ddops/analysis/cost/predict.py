"""What a fit says of what was not measured, with a range as wide as the fit was wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddops.analysis.cost.fit import FEWEST, Fit, Held, Step, Timed, fit, held_out
from ddops.analysis.cost.observe import Observed
from ddops.analysis.cost.range import Range
from ddops.errors import UsageError
from ddops.spec.cost import Processor


@dataclass(frozen=True)
class Prediction:
    budget: int  # 0 is autoregressive
    concurrency: int
    step_s: Range
    accept: Range | None
    beyond: tuple[str, ...]  # more of these than was measured
    why: str

    @property
    def tok_s(self) -> Range | None:
        return self.accept.per(self.step_s) * self.concurrency if self.accept else None


@dataclass(frozen=True)
class Wish:
    budget: int
    concurrency: int
    accept: Range | None = None  # None: as measured at that budget
    on: Processor | None = None  # None: where it was measured


@dataclass(frozen=True)
class Fitted:
    """`by_cell`: each step predicted from all others; `by_concurrency`: from the other ones."""

    observed: Observed
    fit: Fit
    by_cell: tuple[Held, ...]
    by_concurrency: tuple[Held, ...]  # empty where too few steps would be left
    predictions: tuple[Prediction, ...]


def fitted(observed: Observed, wishes: Sequence[Wish]) -> Fitted:
    """Raises `UsageError` for too few steps, and as `predict` does."""
    found = fit(observed.timed)
    by_cell = _held_out(observed, [[one] for one in observed.timed])
    rungs = [_rung(observed, asked) for asked in sorted(set(observed.concurrency))]
    return Fitted(
        observed=observed,
        fit=found,
        by_cell=by_cell,
        by_concurrency=_held_out(observed, rungs) if len(rungs) > 1 else (),
        predictions=tuple(predict(observed, found, by_cell, wish) for wish in wishes),
    )


def predict(observed: Observed, found: Fit, held: Sequence[Held], wish: Wish) -> Prediction:
    """The range is the worst error of the steps that were held out, none below the bytes.

    On another GPU bytes change with its bandwidth; all else stays (launches, host) or changes too.
    Raises `UsageError` for another GPU where the measured one is not known.
    """
    nodes = wish.concurrency * (wish.budget + 1)
    step = Step(
        name="predicted",
        drafts=wish.budget > 0,
        requests=wish.concurrency,
        nodes=nodes,
        bytes_s=_bytes_s(observed, nodes),
    )
    ratio = _ratio(observed, wish.on)
    rest = found.seconds(step) - step.bytes_s
    least = step.bytes_s * ratio
    ends = Range.of(least + rest, least + rest * ratio)
    worst = max((abs(one.error) for one in held), default=0.0)
    accept = wish.accept or _measured(observed, wish.budget)
    return Prediction(
        budget=wish.budget,
        concurrency=wish.concurrency,
        step_s=Range(max(least, ends.low * (1 - worst)), ends.high * (1 + worst)),
        accept=Range.of(1.0) if wish.budget == 0 else accept,
        beyond=found.beyond(step),
        why=f"{worst:.0%} either way: the worst of {len(held)} steps that were held out"
        if held
        else "nothing could be held out: how wrong it is is not known",
    )


def _held_out(observed: Observed, groups: Sequence[Sequence[Timed]]) -> tuple[Held, ...]:
    left = len(observed.timed) - max(map(len, groups))
    return held_out(observed.timed, groups) if left >= FEWEST else ()


def _rung(observed: Observed, concurrency: int) -> Sequence[Timed]:
    pairs = zip(observed.timed, observed.concurrency, strict=True)
    return [one for one, asked in pairs if asked == concurrency]


def _bytes_s(observed: Observed, nodes: float) -> float:
    """Of the measured step with the most similar tree."""
    nearest = min(observed.timed, key=lambda one: abs(one.step.nodes - nodes))
    return nearest.step.bytes_s


def _ratio(observed: Observed, on: Processor | None) -> float:
    if on is None:
        return 1.0
    if observed.on is None:
        raise UsageError(
            f"{observed.source}: its GPU is not in the cost model's list",
            hint="leave `--gpu` out: the prediction is then for the box that was measured",
        )
    return observed.on.tb_s / on.tb_s


def _measured(observed: Observed, budget: int) -> Range | None:
    accept = observed.accept.get(budget)
    return Range.of(accept) if accept is not None else None

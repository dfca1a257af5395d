"""A matrix becomes cells in the order they are measured, and each variant a deployment. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from operator import truediv

from pydantic import ValidationError

from ddops.errors import SpecError, UsageError
from ddops.spec.deployment import Decoding, Deployment
from ddops.spec.matrix import Cell, Matrix, Pace, Variant

RESTART_S = 10.0
STREAM_TOK_S = 33.0
"""For estimates only: what the default matrix averaged over its cells on two CPU cores."""


@dataclass(frozen=True)
class Estimate:
    """How long cells will take."""

    seconds: float
    known: int  # cells of which an earlier record of this box told the speed
    cells: int


def cells(matrix: Matrix) -> tuple[Cell, ...]:
    """All cells of a variant together, so the service restarts once per variant.

    Autoregressive variants come first: the answers of the others are compared with theirs.
    `repeated` runs the whole ladder of paces, then again, so that a slow change of the box does
    not fall on one rung; `randomised` shuffles, with the matrix' fingerprint as the seed. The first
    cell comes `again` at the end: what changed in between had nothing to do with variants.
    """
    dice = random.Random(matrix.fingerprint)
    shuffled = matrix.order == "randomised"
    variants = list(matrix.variants)
    if shuffled:
        dice.shuffle(variants)
    ordered = []
    for variant in sorted(variants, key=lambda variant: variant.mode != "ar"):
        own = _of_variant(variant, matrix)
        if shuffled:
            dice.shuffle(own)
        ordered += own
    if matrix.again and len(ordered) > 1:
        ordered.append(ordered[0].model_copy(update={"again": True}))
    return tuple(ordered)


def chosen(ordered: Sequence[Cell], patterns: Sequence[str]) -> tuple[Cell, ...]:
    """The cells whose id fits one of `patterns` (`*` and `?` as in a shell); all without any.

    The autoregressive cell that a chosen one is compared with comes along.
    """
    for pattern in patterns:
        if not any(fnmatchcase(cell.id, pattern) for cell in ordered):
            ids = ", ".join(cell.id for cell in ordered)
            raise UsageError(f"no cell fits `{pattern}`", hint=f"the cells are {ids}")
    fits = [
        cell
        for cell in ordered
        if not patterns or any(fnmatchcase(cell.id, pattern) for pattern in patterns)
    ]
    wanted = {cell.id for cell in fits}
    wanted |= {base.id for cell in fits if (base := baseline(cell, ordered))}
    return tuple(cell for cell in ordered if cell.id in wanted)


def baseline(cell: Cell, ordered: Sequence[Cell]) -> Cell | None:
    """The first autoregressive cell at the same pace and repeat."""
    same = (cell.pace, cell.repeat)
    return next(
        (
            other
            for other in ordered
            if other.variant.mode == "ar" and (other.pace, other.repeat) == same
        ),
        None,
    )


def configured(deployment: Deployment, variant: Variant) -> Deployment:
    """`deployment` with what `variant` names; the rest stays as it is."""
    had = deployment.decoding
    try:
        decoding = Decoding(
            mode=variant.mode,
            budget=had.budget if variant.budget is None else variant.budget,
            adaptive=variant.adaptive,
            drafter=had.drafter,
            drafter_shape=had.drafter_shape,
        )
    except ValidationError as wrong:
        raise SpecError(
            f"variant `{variant.name}` does not fit the deployment: {wrong.errors()[0]['msg']}",
            hint="name a `drafter` under `decoding` in the inventory, then `ddops deploy`",
        ) from wrong
    return deployment.model_copy(
        update={
            "decoding": decoding,
            "graphs": variant.graphs or deployment.graphs,
            "nvls": variant.nvls or deployment.nvls,
            "parallel": variant.parallel or deployment.parallel,
        }
    )


Speeds = Mapping[tuple[Variant, Pace], float]
"""Output tok/s of earlier records on the same box."""


def estimate(
    matrix: Matrix, measured: Sequence[Cell], speeds: Speeds, problems: int = 0
) -> Estimate:
    """By the speed the box had at this cell before, else STREAM_TOK_S; and the restarts.

    `problems`: that each cell is given after its window.
    """
    beside = problems * (matrix.coding.max_tokens if matrix.coding else 0)
    told = [speeds.get((cell.variant, cell.pace)) for cell in measured]
    restarts = sum(1 for _ in groupby(measured, key=lambda cell: cell.variant))
    tokens = [
        beside + (matrix.load.asked(cell.pace) + matrix.load.warmup) * matrix.load.max_tokens
        for cell in measured
    ]
    rates = [speed or STREAM_TOK_S for speed in told]
    seconds = restarts * RESTART_S + sum(map(truediv, tokens, rates))
    rests = max(0, len(measured) - 1) * matrix.cooldown_s
    return Estimate(seconds + rests, sum(map(bool, told)), len(told))


def _of_variant(variant: Variant, matrix: Matrix) -> list[Cell]:
    return [
        Cell(
            variant=variant,
            concurrency=pace.concurrency,
            repeat=repeat,
            arrivals=pace.arrivals,
            rate=pace.rate,
        )
        for repeat in range(1, matrix.repeats + 1)
        for pace in matrix.ladder(variant)
    ]

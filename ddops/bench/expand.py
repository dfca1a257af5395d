"""A matrix becomes cells in the order they are measured, and each variant a deployment. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fnmatch import fnmatchcase

from pydantic import ValidationError

from ddops.errors import SpecError, UsageError
from ddops.spec.deployment import Decoding, Deployment
from ddops.spec.matrix import Cell, Matrix, Variant

RESTART_S = 10.0
STREAM_TOK_S = 33.0
"""For estimates only: what the default matrix averaged over its cells on two CPU cores."""


def cells(matrix: Matrix) -> tuple[Cell, ...]:
    """All cells of a variant together, so the service restarts once per variant.

    Autoregressive variants come first: the answers of the others are compared with theirs.
    `repeated` runs the whole concurrency ladder, then again, so that slow drift does not fall on
    one rung; `randomised` shuffles, with the matrix' fingerprint as the seed.
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
    """The first autoregressive cell at the same concurrency and repeat."""
    same = (cell.concurrency, cell.repeat)
    return next(
        (
            other
            for other in ordered
            if other.variant.mode == "ar" and (other.concurrency, other.repeat) == same
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


def estimate_s(matrix: Matrix, measured: Sequence[Cell]) -> float:
    """As long as tokens take at STREAM_TOK_S, whatever the cell, and the restarts."""
    tokens = (matrix.load.requests + matrix.load.warmup) * matrix.load.max_tokens
    restarts = len({cell.variant.name for cell in measured})
    return restarts * RESTART_S + len(measured) * tokens / STREAM_TOK_S


def _of_variant(variant: Variant, matrix: Matrix) -> list[Cell]:
    return [
        Cell(variant=variant, concurrency=concurrency, repeat=repeat)
        for repeat in range(1, matrix.repeats + 1)
        for concurrency in matrix.concurrency
    ]

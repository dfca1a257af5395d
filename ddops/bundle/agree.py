"""Where what a file states and what was derived again are not the same. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

CLOSE: Final = 1e-9  # relative: `sum` of floats is not the same in every Python


def apart(
    said: Mapping[str, Any], right: Mapping[str, Any], *, stated: bool = False
) -> Iterator[tuple[str, object, object]]:
    """(key, stated, derived) of each value that differs, as `ttft_s.p50` for what is inside.

    `stated`: only what is stated counts; an older file lacks what was added since.
    """
    told, found = flat(said), flat(right)
    keys: Iterable[str] = told if stated else {*told, *found}
    for key in sorted(keys):
        if not _close(told.get(key), found.get(key)):
            yield key, told.get(key), found.get(key)


def flat(value: object, path: str = "") -> dict[str, object]:
    """`ttft_s.p50` and `accepted_per_position.0` instead of nested values."""
    if isinstance(value, dict):
        below = value.items()
    elif isinstance(value, tuple):
        below = dict(enumerate(value)).items()
    else:
        return {path.removesuffix("."): value}
    return {k: v for key, inner in below for k, v in flat(inner, f"{path}{key}.").items()}


def _close(told: object, found: object) -> bool:
    if isinstance(told, int | float) and isinstance(found, int | float):
        return math.isclose(told, found, rel_tol=CLOSE, abs_tol=1e-12)
    return told == found

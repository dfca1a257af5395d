"""Samples of `/metrics` as a record keeps them: by name and labels, as they stand there. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping


def name_of(key: str) -> str:
    return key.partition("{")[0]


def by_label(
    name: str, label: str, before: Mapping[str, float], after: Mapping[str, float]
) -> dict[int, int]:
    """A counter's differences by the number that one of its labels holds, over all the others."""
    number = re.compile(rf'{label}="(\d+)"')
    counts: dict[int, float] = {}
    for sign, samples in ((1, after), (-1, before)):
        for key, value in samples.items():
            if name_of(key) == name and (found := number.search(key)):
                at = int(found[1])
                counts[at] = counts.get(at, 0.0) + sign * value
    return {at: int(count) for at, count in counts.items()}

"""What is worked out from records for those who do not read them: a table, claims. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Final

import yaml

from ddops.analysis import compare
from ddops.analysis.repeats import Group
from ddops.spec.claims import Claims, StatedClaim
from ddops.spec.record import Record

_DIGITS: Final = 2
_HALF_A_DIGIT: Final = 0.005


def tables(records: Sequence[Record], ddops_version: str) -> str:
    """A row for each record, in its order, and which ddops made it."""
    rows = [dataclasses.asdict(row) for row in compare.rows(records)]
    made = {"made_by": f"ddops {ddops_version}", "rows": rows}
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def claims(groups: Sequence[Group]) -> str | None:
    """As `ddops claims` reads them, of the bundle they lie in; None where nothing has a ratio.

    The tolerance is how far the repeats are apart, and half of the last digit at least.
    """
    stated = tuple(_ratios(groups))
    if not stated:
        return None
    made = Claims(records="..", claims=stated)
    return yaml.safe_dump(made.model_dump(mode="json", exclude_defaults=True), sort_keys=False)


def _ratios(groups: Sequence[Group]) -> Iterator[StatedClaim]:
    for group in groups:
        ratio = group.speedup
        if ratio is None or group.variant.mode == "ar":
            continue
        stated = round(ratio.value, _DIGITS)
        apart = [abs(each.value - stated) for each in group.by_repeat]
        yield StatedClaim(
            says=f"{group.pace}: {group.variant.name} makes {stated:.2f}x of ar",
            kind="ratio",
            of=(ratio.of,),
            base=(ratio.base,),
            stated=stated,
            tolerance=round(max([_HALF_A_DIGIT, *apart]) + 1e-9, 6),
        )

"""Which budgets the steps of a cell had, by the engine's own counters. Pure."""

from __future__ import annotations

import re

from ddops.engines.table import ENGINES
from ddops.spec.record import Record

_BUDGET = re.compile(r'\{budget="(\d+)"\}$')


def chosen(record: Record) -> dict[int, int]:
    """Steps of the window by budget, most first; empty where the engine does not count them."""
    name = ENGINES[record.deployment.engine].counters.by_budget
    if name is None:
        return {}
    counted = {
        int(label[1]): int(count - record.counters_before.get(key, 0.0))
        for key, count in record.counters_after.items()
        if key.startswith(f"{name}{{") and (label := _BUDGET.search(key))
    }
    most_first = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return {budget: steps for budget, steps in most_first if steps > 0}

"""Which budgets the steps of a cell had, by the engine's own counters. Pure."""

from __future__ import annotations

from ddops.engines.samples import by_label
from ddops.engines.table import ENGINES
from ddops.spec.record import Record


def chosen(record: Record) -> dict[int, int]:
    """Steps of the window by budget, most first; empty where the engine does not count them."""
    name = ENGINES[record.deployment.engine].counters.by_budget
    before, after = record.counters_before, record.counters_after
    counted = by_label(name, "budget", before, after) if name else {}
    most_first = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return {budget: steps for budget, steps in most_first if steps > 0}

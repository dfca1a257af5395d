"""How deep and how wide a step's tree is under a configuration. Ints only."""

from __future__ import annotations

from ddtree.config import EngineConfig
from ddtree.speculate import lookup
from ddtree.speculate.seam import Models

LADDER = (4, 8, 16, 32, 64, 128)  # budgets that an adaptive step may choose below its largest


def step_budgets(config: EngineConfig, models: Models) -> tuple[int, ...]:
    """The budgets a step may have; 0 verifies the root alone, as some requests ask for."""
    if config.mode == "ar":
        return (0,)
    if config.mode == "chain":
        return (0, tree_depth(config, models))
    if not config.adaptive:
        return (0, config.budget)
    return (0, *[b for b in LADDER if b < config.budget], config.budget)


def tree_depth(config: EngineConfig, models: Models) -> int:
    """D for this configuration: 0 without speculation, else what the drafter reaches."""
    if config.mode == "ar":
        return 0
    if models.drafter is not None:
        return models.drafter.shape.depth
    return min(lookup.DEPTH, config.budget)


def tree_nodes(config: EngineConfig, models: Models) -> int:
    """N: the nodes of one verify, root included."""
    return max(step_budgets(config, models)) + 1

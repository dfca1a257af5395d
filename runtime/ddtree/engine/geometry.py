"""How deep and how wide a step's tree is, under a configuration and for a request. Ints only."""

from __future__ import annotations

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Speculative
from ddtree.engine.errors import RequestError
from ddtree.speculate import lookup
from ddtree.speculate.seam import Models

WITHIN: dict[Mode, tuple[Mode, ...]] = {  # what a request may ask of a server in this mode
    "ar": ("ar",),
    "chain": ("ar", "chain"),
    "ddtree": ("ar", "chain", "ddtree"),
}
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


def allowance(config: EngineConfig, depth: int, asked: Speculative) -> int:
    """Nodes besides the root that a step may verify for a request; `depth` is the engine's D.

    Raises RequestError for more than the engine was started with.
    """
    mode = mode_of(config, asked)
    if mode not in WITHIN[config.mode]:
        able = " or ".join(WITHIN[config.mode])
        message = f"this server decodes in mode {able}, not in mode {mode}"
        raise RequestError(message, "speculative.mode")
    most = {"ar": 0, "chain": depth, "ddtree": config.budget}[mode]
    if config.mode == "ddtree":
        most = min(most, config.budget)
    if asked.budget is not None and asked.budget > most:
        message = f"a budget of {asked.budget} is more than the {most} of mode {mode} here"
        raise RequestError(message, "speculative.budget")
    return most if asked.budget is None else asked.budget


def mode_of(config: EngineConfig, asked: Speculative) -> Mode:
    return asked.mode or config.mode

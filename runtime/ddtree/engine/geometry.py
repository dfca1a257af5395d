"""How deep and how wide a step's tree is under a configuration. Ints only."""

from __future__ import annotations

from ddtree.config import EngineConfig
from ddtree.speculate import lookup
from ddtree.speculate.seam import Models

CHUNK = 512  # tokens of prompts a step
# Of a small model on CUDA, where a prefill costs its launches more than its tokens. H200,
# SmolLM2-135M, 64 streams of 192-token prompts, tok/s at 512 / 2048 / 4096: adaptive trees
# 49,800 / 82,100 / 82,700, ar 42,000 / 48,100 / 48,200; the slowest first tokens 75 / 27 / 24 ms.
LONG_CHUNK = 2048
SMALL = 2 << 30  # weights of the layers, about; 2048 tokens of so many take an H200 some 15 ms
LADDER = (4, 8, 16, 32, 64, 128)  # budgets that an adaptive step may choose below its largest


def prefill_chunk(config: EngineConfig, models: Models) -> int:
    """Tokens of prompts that one step takes: the longest that running answers are held up."""
    if config.prefill_chunk is not None:
        return config.prefill_chunk
    shape = models.target.shape
    weights = 12 * shape.num_layers * shape.hidden_size**2
    small = weights <= SMALL and models.target.device.type == "cuda"
    return LONG_CHUNK if small else CHUNK


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

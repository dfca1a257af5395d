"""How fast to learn at each step. Pure arithmetic."""

from __future__ import annotations

import math

from ddtree.train.recipe import Recipe

LAST = 0.03  # of the highest rate


def rate(recipe: Recipe, step: int, since_checkpoint: int) -> float:
    """Warm up, then one cosine over all rounds; after a checkpoint the moments fill up first."""
    warm = min(1.0, (step + 1) / recipe.warm_up)
    settled = min(1.0, (since_checkpoint + 1) / recipe.settle)
    done = min(1.0, step / recipe.all_steps)
    cosine = LAST + (1 - LAST) * (1 + math.cos(math.pi * done)) / 2
    return recipe.rate * min(warm, settled) * cosine

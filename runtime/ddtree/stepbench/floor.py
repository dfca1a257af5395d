"""The bytes a step cannot avoid moving: every weight once, every cached key and value once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ddtree.config import DrafterShape, ModelShape
from ddtree.models.dflash import drafter_shapes
from ddtree.models.llama import target_shapes
from ddtree.models.weights import EMBEDDING, Shapes


@dataclass(frozen=True)
class Floor:
    """Bytes of one step. Activations are left out: they stay on the chip."""

    target_weights: int
    drafter_weights: int  # the target's head once more, for the drafts, included
    cache: int  # keys and values of the context, target and drafter

    @property
    def total(self) -> int:
        return self.target_weights + self.drafter_weights + self.cache


def floor(
    target: ModelShape, drafter: DrafterShape | None, *, batch: int, context: int, itemsize: int
) -> Floor:
    """`context` cached positions a row, weights and cache of `itemsize` bytes an element."""
    per_position = _cache_elements(target)
    drafted = 0
    if drafter is not None:
        per_position += _cache_elements(drafter.layers)
        drafted = _elements(drafter_shapes(drafter)) + target.vocab_size * target.hidden_size
    shapes = target_shapes(target)
    if not target.tied_embeddings:  # a few rows of the embedding are read, not the table
        shapes.pop(EMBEDDING)
    return Floor(
        target_weights=_elements(shapes) * itemsize,
        drafter_weights=drafted * itemsize,
        cache=batch * context * per_position * itemsize,
    )


def _elements(shapes: Shapes) -> int:
    return sum(prod(shape) for shape in shapes.values())


def _cache_elements(shape: ModelShape) -> int:
    return shape.num_layers * prod(shape.cached)

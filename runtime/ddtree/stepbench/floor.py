"""The bytes a step cannot avoid moving: every weight once, every cached key and value once.

Of a mixture's experts those that some token chose.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ddtree.config import DrafterShape, ModelShape
from ddtree.models.dflash import drafter_shapes
from ddtree.models.llama import target_shapes
from ddtree.models.weights import EMBEDDING, Shapes
from ddtree.ops.experts.packed import LANES


@dataclass(frozen=True)
class Floor:
    """Bytes of one step. Activations are left out: they stay on the chip."""

    target_weights: int  # routed experts left out
    experts: int  # those that were read, in all layers
    drafter_weights: int  # the target's head once more, for the drafts, included
    cache: int  # keys and values of the context, target and drafter

    @property
    def total(self) -> int:
        return self.target_weights + self.experts + self.drafter_weights + self.cache


@dataclass(frozen=True)
class Read:
    """How much of a mixture a step reads."""

    experts: float  # of a layer, on average
    int4: bool


def floor(
    target: ModelShape,
    drafter: DrafterShape | None,
    *,
    batch: int,
    context: int,
    itemsize: int,
    read: Read | None = None,
) -> Floor:
    """`context` cached positions a row, weights and cache of `itemsize` bytes an element.

    `read` is needed of a target with experts.
    """
    per_position = _cache_elements(target)
    drafted = 0
    if drafter is not None:
        per_position += _cache_elements(drafter.layers)
        drafted = _elements(drafter_shapes(drafter)) + target.vocab_size * target.hidden_size
    shapes = target_shapes(target)
    if not target.tied_embeddings:  # a few rows of the embedding are read, not the table
        shapes.pop(EMBEDDING)
    return Floor(
        target_weights=_elements(_unrouted(shapes)) * itemsize,
        experts=0 if read is None else round(_expert_bytes(target, read, itemsize)),
        drafter_weights=drafted * itemsize,
        cache=batch * context * per_position * itemsize,
    )


def _unrouted(shapes: Shapes) -> Shapes:
    return {name: shape for name, shape in shapes.items() if ".experts." not in name}


def _expert_bytes(target: ModelShape, read: Read, itemsize: int) -> float:
    assert target.experts is not None, "read of a mixture"
    layers = target.num_layers - len(target.experts.dense_layers)
    one = 3 * target.hidden_size * target.experts.intermediate_size
    each = 1 / 2 + itemsize / LANES if read.int4 else itemsize
    return layers * read.experts * one * each


def _elements(shapes: Shapes) -> int:
    return sum(prod(shape) for shape in shapes.values())


def _cache_elements(shape: ModelShape) -> int:
    return shape.num_layers * prod(shape.cached)

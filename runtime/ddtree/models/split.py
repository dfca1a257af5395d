"""How a model is shared out to ranks: a rule a tensor, and the shape of what one rank holds.

A product is split by outputs or by inputs, so that two of them in a row need one sum; attention
is split by heads. What no rule names is on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from ddtree.config import Experts, ModelShape
from ddtree.models import weights as names
from ddtree.models.errors import ModelError
from ddtree.models.weights import Divisible, HoldsInt4, Int4, Part, Weights
from ddtree.parallel.group import ALONE, Group

# column: outputs are split, so rows of the matrix. row: inputs, so its columns.
# kv: as column by heads, and where there are fewer heads than ranks, some ranks hold the same one.
Rule = Literal["column", "row", "kv"]

RULES: dict[str, Rule] = {
    names.EMBEDDING: "column",  # by vocabulary
    names.HEAD: "column",
    names.QUERY: "column",
    names.QKV[1]: "kv",
    names.QKV[2]: "kv",
    names.OUTPUT[0]: "row",
    names.QUERY_UP: "column",
    names.LATENT_UP: "column",
    **dict.fromkeys(names.GATE_UP, "column"),
    names.DOWN[0]: "row",
}
EXPERT = "mlp.experts."


@dataclass(frozen=True)
class Split:
    """`whole_experts`: a rank holds some experts whole (EP), and not a part of each (TP)."""

    group: Group = ALONE
    whole_experts: bool = False

    def held(self, shape: ModelShape) -> ModelShape:
        """What of `shape` one rank holds. Its vocabulary and its experts are counted whole."""
        size = self.group.size
        experts = shape.experts
        if experts is not None:
            inner = experts.intermediate_size // (1 if self.whole_experts else size)
            experts = replace(
                experts, intermediate_size=inner, shared_size=experts.shared_size // size
            )
        return replace(
            shape,
            intermediate_size=shape.intermediate_size // size,
            num_heads=shape.num_heads // size,
            num_kv_heads=max(1, shape.num_kv_heads // size),
            experts=experts,
        )

    def experts(self, experts: Experts) -> range:
        """Those that this rank holds, whole or a part of each."""
        if not self.whole_experts:
            return range(experts.count)
        count = experts.count // self.group.size
        return range(self.group.rank * count, (self.group.rank + 1) * count)

    def part(self, name: str, whole: tuple[int, ...], kv_heads: int) -> Part | None:
        """What of a tensor of this name and shape a rank reads; None: all of it."""
        rule = rule_of(name)
        if rule is None or self.group.size == 1 or (self.whole_experts and EXPERT in name):
            return None
        dim = 1 if rule == "row" else 0
        parts = min(self.group.size, kv_heads) if rule == "kv" else self.group.size
        length = whole[dim] // parts
        begin = self.group.rank * parts // self.group.size * length
        return Part(dim, begin, begin + length)


UNSPLIT = Split()


class Share:
    """A checkpoint of which one rank reads its part. Satisfies `models.weights.Weights`."""

    def __init__(self, weights: Weights, shape: ModelShape, split: Split) -> None:
        self.path: Path = weights.path
        self.shapes: Mapping[str, tuple[int, ...]] = weights.shapes  # of the whole
        self._weights, self._split, self._kv_heads = weights, split, shape.num_kv_heads

    def read(self, name: str) -> torch.Tensor:
        part = self._split.part(name, self.shapes[name], self._kv_heads)
        if part is None:
            return self._weights.read(name)
        if isinstance(self._weights, Divisible):
            return self._weights.read_part(name, part)
        whole = self._weights.read(name)
        return whole.narrow(part.dim, part.begin, part.end - part.begin).contiguous()

    def read_int4(self, name: str) -> Int4 | None:
        if not isinstance(self._weights, HoldsInt4):
            return None
        part = self._split.part(name, self.shapes[name], self._kv_heads)
        return self._weights.read_int4(name, part)


def rule_of(name: str) -> Rule | None:
    """`layers.3.mlp.experts.7.up_proj.weight` has that of `mlp.up_proj.weight`."""
    head, _, rest = name.partition(".")
    if head == "layers":
        name = rest.partition(".")[2]
    if name.startswith(EXPERT):
        name = "mlp." + name.removeprefix(EXPERT).partition(".")[2]
    return RULES.get(name.replace("mlp.shared_experts.", "mlp.", 1))


def uneven(shape: ModelShape, split: Split) -> list[str]:
    """What of a model its ranks cannot have equal shares of."""
    size, experts = split.group.size, shape.experts
    counted = {"attention heads": shape.num_heads, "tokens of the vocabulary": shape.vocab_size}
    if experts is None or experts.dense_layers:
        counted["features of a feed-forward"] = shape.intermediate_size
    if experts is not None:
        counted["features of the shared expert"] = experts.shared_size
        whole = split.whole_experts
        counted["experts" if whole else "features of an expert"] = (
            experts.count if whole else experts.intermediate_size
        )
    if shape.latent is None and size % shape.num_kv_heads:
        counted["key and value heads"] = shape.num_kv_heads
    return [f"{count} {what}" for what, count in counted.items() if count % size]


def check_divides(path: Path, shape: ModelShape, split: Split) -> None:
    """Raise ModelError unless every rank gets an equal share."""
    size = split.group.size
    if shape.experts is None and split.whole_experts:
        raise ModelError(path, "has no experts to share out", hint=f"give --tp {size} for --ep")
    if odd := uneven(shape, split):
        raise ModelError(
            path,
            f"{', '.join(odd)} cannot be shared out to {size} ranks",
            hint="choose a number of ranks that divides them",
        )

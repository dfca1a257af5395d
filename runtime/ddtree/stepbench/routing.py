"""How experts are drawn in a timed step, and how many of them it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from ddtree.config import Experts
from ddtree.layers.experts import SparseMlp
from ddtree.layers.routing import SigmoidRouter
from ddtree.models.llama import Llama

# uniform: random gates alone. skewed: a correction that falls from 0 to -1 over the experts, so
# that the first ones are chosen by nearly every token, as a text's own experts are.
Routing = Literal["uniform", "skewed"]

# Standard deviation of what is a node's own in the hidden states. A layer adds numbers of about 1,
# and what attention adds is much the same for all nodes: with 1 here, layers of Kimi-K2.6's sizes
# drew 6 % fewer experts than fair draws do with 9 nodes, on average over 61 of them.
APART = 30.0


@dataclass(frozen=True)
class Hits:
    """Experts of a layer that at least one token chose, over the layers that have any."""

    mean: float
    least: int
    most: int
    fair: float  # what fair draws of so many tokens would touch on average


def fair(experts: Experts, tokens: int) -> float:
    """Of `count` experts, those that `tokens` tokens touch, each drawing `active` of them."""
    return experts.count * (1 - (1 - experts.active / experts.count) ** tokens)


@contextmanager
def routed(model: nn.Module, routing: Routing) -> Iterator[None]:
    """The model's corrections are those of `routing`; zero again afterwards."""
    corrections = [one.correction for one in model.modules() if isinstance(one, SigmoidRouter)]
    for correction in corrections:
        if routing == "skewed":
            correction.copy_(torch.linspace(0, -1, len(correction)))
    try:
        yield
    finally:
        for correction in corrections:
            correction.zero_()


def set_apart(target: Llama, rows: int, nodes: int) -> None:
    """Give every node of every row something of its own besides its token's embedding.

    Random models repeat a token or two in all of a tree, and rows begin with the same one: nodes
    would share their experts. It outweighs what layers add, so routers of all layers meet nodes
    that are as far apart as at the first.
    """
    draw = torch.Generator(target.device).manual_seed(nodes)
    shape = (rows, nodes, target.shape.hidden_size)
    own = torch.randn(shape, generator=draw, dtype=target.dtype, device=target.device) * APART
    embed = target.embed

    def apart(tokens: torch.Tensor) -> torch.Tensor:
        return embed(tokens) + own[: tokens.shape[0], : tokens.shape[1]]

    target.embed = apart  # type: ignore[method-assign]


def count_hits(model: nn.Module, forward: Callable[[], object]) -> Hits | None:
    """Of one forward that is not captured; None for a model without experts."""
    seen: list[torch.Tensor] = []

    def note(_: nn.Module, __: object, choice: tuple[torch.Tensor, torch.Tensor]) -> None:
        seen.append(choice[0])

    mixtures = [one for one in model.modules() if isinstance(one, SparseMlp)]
    if not mixtures:
        return None
    hooks = [mixture.router.register_forward_hook(note) for mixture in mixtures]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    counts = [len(set(chosen.flatten().tolist())) for chosen in seen]
    experts, tokens = mixtures[0].router.experts, seen[0].shape[:-1].numel()
    return Hits(sum(counts) / len(counts), min(counts), max(counts), fair(experts, tokens))

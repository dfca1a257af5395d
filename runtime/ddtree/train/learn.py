"""One leg of training: from one checkpoint to the next, on the answers of one round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from ddtree.core.batch import Marginals
from ddtree.train.attention import Sight, dense, sparse
from ddtree.train.corpus import Blocks, Corpus, Cut, blocks_at, draw, mixed_seed
from ddtree.train.loss import Lesson, head_loss
from ddtree.train.net import DrafterNet
from ddtree.train.recipe import Recipe
from ddtree.train.schedule import rate
from ddtree.train.state import Weights

CLIP = 1.0
BETAS = (0.9, 0.95)
UPLOAD = 50  # steps drawn at once
NEAR, FEW = 6, 3  # positions that every step judges; of those behind, one in so many
FLEX_BLOCK = 128  # a sparse mask is cut in squares of this

Drawn = tuple[torch.Tensor, torch.Tensor]  # sequences [B] and roots [B, A] of a step


class DivergedError(ArithmeticError):
    """Nothing can be learnt from here on; the last checkpoint is sound."""


@dataclass(frozen=True)
class Frozen:
    """The target's own embedding and head, which the drafter borrows. Both [V, H]."""

    embedding: torch.Tensor
    head: torch.Tensor


@dataclass(frozen=True)
class Seen:
    """Means over the steps since the last word."""

    loss: float
    accuracy: list[float]  # by position, the first one first
    steps_per_second: float


@dataclass(frozen=True)
class Part:
    """The positions of a block that one step judges, and what each counts."""

    after: torch.Tensor  # [P] int64, 1 for the first one after the root
    weight: torch.Tensor  # [P] float32


def parts_of(recipe: Recipe, device: torch.device) -> list[Part]:
    """What a step judges, in turns: of the far positions, which count little, one in FEW.

    It then counts FEW times. The products with the head are most of a step's work.
    """
    drafted = recipe.block_size - 1
    near = min(drafted, NEAR + max(drafted - NEAR, 0) % FEW)  # so that all parts are of one size
    parts = []
    for turn in range(FEW):
        after = torch.tensor([*range(1, near + 1), *range(near + 1 + turn, drafted + 1, FEW)])
        decay = torch.exp(-(after - 1) / recipe.gamma)
        weight = decay.where(after <= near, FEW * decay)
        parts.append(Part(after.to(device), weight.to(device)))
    return parts


class Learner:
    """The weights, their running average, and how to take a step."""

    def __init__(
        self, net: DrafterNet, frozen: Frozen, recipe: Recipe, *, compiled: bool = False
    ) -> None:
        self.net, self.frozen, self.recipe = net, frozen, recipe
        self.device = frozen.head.device
        self.average = {name: p.detach().clone() for name, p in net.named_parameters()}
        self.parts = parts_of(recipe, self.device)
        self.compiled = compiled
        if compiled:
            for layer in net.layers:
                layer.compile()

    def weights(self) -> Weights:
        return {name: p.detach() for name, p in self.net.named_parameters()}

    def take(self, weights: Weights, average: Weights) -> None:
        """Go on from these."""
        self.net.load_state_dict(weights)
        self.average = {name: weight.to(self.device) for name, weight in average.items()}

    def leg(
        self, corpus: Corpus, steps: range, tell: Callable[[int, Seen], None], every: int
    ) -> None:
        """Steps `steps` of the whole run, with fresh moments."""
        optimiser = self._optimiser()
        losses, rights, began = [], [], time.monotonic()
        for step, where in zip(steps, self._drawn(corpus, steps), strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate(self.recipe, step, step - steps.start)
            loss, right = self._step(corpus, step, where, optimiser)
            losses.append(loss)
            rights.append(right)
            if len(losses) == every or step == steps[-1]:
                loss = torch.stack(losses).mean()
                if not loss.isfinite():
                    raise DivergedError(f"the loss is {float(loss)} at step {step + 1}")
                means = torch.stack(rights).nanmean(0).tolist()
                speed = len(losses) / (time.monotonic() - began)
                tell(step + 1, Seen(float(loss), means, speed))
                losses, rights, began = [], [], time.monotonic()

    def _drawn(self, corpus: Corpus, steps: range) -> Iterator[Drawn]:
        """What each step learns from; uploaded for many at once, since an upload waits."""
        recipe = self.recipe
        for at in range(0, len(steps), UPLOAD):
            drawn = [
                draw(corpus, mixed_seed(recipe.seed, step), recipe.batch, recipe.anchors)
                for step in steps[at : at + UPLOAD]
            ]
            columns = (torch.stack(column).to(self.device) for column in zip(*drawn, strict=True))
            yield from zip(*(column.unbind() for column in columns), strict=True)

    def _step(
        self, corpus: Corpus, step: int, where: Drawn, optimiser: torch.optim.Optimizer
    ) -> tuple[torch.Tensor, torch.Tensor]:
        recipe = self.recipe
        context = round_up(recipe.longest) if self.compiled else int(where[1].max())
        cut = Cut(recipe.block_size, max(context, 1), self.frozen.head.dtype)
        blocks = blocks_at(corpus, *where, cut)
        with self.precision():
            hidden = self.hidden(blocks)
        loss, right = self._judge(blocks, hidden, self.parts[step % FEW])
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        self._blend(step)
        return loss.detach(), right

    def hidden(self, blocks: Blocks) -> torch.Tensor:
        """[B, A, b, H]."""
        block, context = blocks.tokens.shape[2], blocks.features.shape[1]
        sight: Sight = (sparse if self.compiled else dense)(blocks.anchors, context, block)
        shown = torch.full_like(blocks.tokens, self.recipe.mask_token)
        shown[:, :, 0] = blocks.tokens[:, :, 0]
        embeddings = self.frozen.embedding[shown]
        out: torch.Tensor = self.net(embeddings, blocks.features, blocks.anchors, sight)
        return out

    def precision(self) -> AbstractContextManager[object]:
        """The target's: products in 16 bits where it has them, over float32 weights."""
        if self.frozen.head.dtype != torch.bfloat16:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _judge(
        self, blocks: Blocks, hidden: torch.Tensor, part: Part
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss, and how often each position [b - 1] was right (NaN where none was judged)."""
        known = blocks.known.index_select(2, part.after)
        before = part.after - 1
        lesson = Lesson(
            tokens=blocks.tokens.index_select(2, part.after).flatten(),
            likely=Marginals(
                blocks.likely.tokens.index_select(2, before).flatten(0, 2),
                blocks.likely.logprobs.index_select(2, before).flatten(0, 2),
            ),
            weight=(known * part.weight).flatten(),
            soft=self.recipe.soft,
        )
        drafted = hidden.index_select(2, part.after).flatten(0, 2)
        loss, right = head_loss(drafted, self.frozen.head, lesson, compiled=self.compiled)
        hits = (right.view_as(known) & known).sum((0, 1)) / known.sum((0, 1))
        everywhere = torch.full(blocks.tokens.shape[2:], torch.nan, device=self.device)
        return loss, everywhere.index_copy(0, part.after, hits)[1:]

    def _optimiser(self) -> torch.optim.Optimizer:
        matrices = [p for p in self.net.parameters() if p.dim() == 2]
        vectors = [p for p in self.net.parameters() if p.dim() == 1]
        groups = [
            {"params": matrices, "weight_decay": self.recipe.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, betas=BETAS, fused=self.device.type == "cuda")

    @torch.no_grad()
    def _blend(self, step: int) -> None:
        kept = min(self.recipe.average, (step + 1) / (step + 10))  # the first weights say little
        weights = self.weights()
        averages = [self.average[name] for name in weights]
        torch._foreach_lerp_(averages, list(weights.values()), 1 - kept)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The net has the average of its weights meanwhile."""
        before = {name: weight.clone() for name, weight in self.weights().items()}
        self.net.load_state_dict(self.average)
        try:
            yield
        finally:
            self.net.load_state_dict(before)


def round_up(context: int) -> int:
    return -(-context // FLEX_BLOCK) * FLEX_BLOCK

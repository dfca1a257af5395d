"""How many tokens a step would commit on answers that were not trained on: an exact walk.

Every position of an answer is drafted once. A greedy answer is then walked as the engine would: a
step at position p commits what the draft got right there and one token more, and p moves on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.marginals import marginals
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_build import tree_build
from ddtree.ops.tree_build.reference import chain
from ddtree.train.corpus import Blocks, Corpus, Cut, blocks_at
from ddtree.train.learn import Learner, round_up

CHAIN = "chain"


@dataclass(frozen=True)
class HeldOut:
    """Greedy answers to prompts of several kinds, loops included."""

    corpus: Corpus
    kinds: list[str]  # of each sequence
    loops: list[list[bool]]  # of each sequence and position


@dataclass
class Tally:
    """Steps and the tokens they committed; also of the steps that began outside a loop."""

    steps: int = 0
    tokens: int = 0
    free_steps: int = 0
    free_tokens: int = 0

    def add(self, tokens: int, *, looping: bool) -> None:
        self.steps += 1
        self.tokens += tokens
        if not looping:
            self.free_steps += 1
            self.free_tokens += tokens

    @property
    def accept(self) -> float:
        return self.tokens / max(self.steps, 1)

    @property
    def accept_outside_loops(self) -> float:
        return self.free_tokens / max(self.free_steps, 1)


@dataclass(frozen=True)
class Scores:
    """By mode (`chain`, or a budget as text), then by kind."""

    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)

    def mean(self, mode: str, kinds: tuple[str, ...]) -> float:
        """Accept outside loops, every kind counting the same."""
        found = [self.tallies[mode][kind].accept_outside_loops for kind in kinds]
        return sum(found) / len(found)


@torch.no_grad()
def evaluate(learner: Learner, held: HeldOut, budgets: tuple[int, ...]) -> Scores:
    """Score the average of the weights on everything held out."""
    modes = [CHAIN, *map(str, budgets)]
    accepted = [[{} for _ in held.kinds] for _ in modes]  # type: list[list[dict[int, int]]]
    with learner.averaged():
        for sequences, anchors, blocks in _all_blocks(learner, held.corpus):
            # with gradients, which nobody asks for: what is compiled for training serves here too
            with learner.precision(), torch.enable_grad():
                hidden = learner.hidden(blocks).detach()
            lengths = _accepted(learner, blocks, hidden, budgets)  # [modes, B, A]
            for known, found in zip(accepted, lengths.tolist(), strict=True):
                for i, row, of_row in zip(sequences.tolist(), anchors.tolist(), found, strict=True):
                    known[i].update(zip(row, of_row, strict=True))
    scores = Scores()
    for mode, known in zip(modes, accepted, strict=True):
        tallies: dict[str, Tally] = {}
        for i, kind in enumerate(held.kinds):
            _walk(held, i, known[i], tallies.setdefault(kind, Tally()))
        scores.tallies[mode] = tallies
    return scores


def _walk(held: HeldOut, sequence: int, accepted: dict[int, int], tally: Tally) -> None:
    """The first token is the prefill's; what lies past the end is not committed."""
    at, end = held.corpus.prompts[sequence], held.corpus.lengths[sequence] - 1
    while at < end:
        committed = accepted[at] + 1
        tally.add(min(committed, end - at), looping=held.loops[sequence][at])
        at += committed


def _all_blocks(
    learner: Learner, corpus: Corpus
) -> Iterator[tuple[torch.Tensor, torch.Tensor, Blocks]]:
    """Every root of every sequence, in batches of one shape; the last are padded with repeats."""
    recipe = learner.recipe
    groups = []
    for i, (prompt, length) in enumerate(zip(corpus.prompts, corpus.lengths, strict=True)):
        roots = torch.arange(prompt, length - 1)
        for part in torch.split(roots, recipe.anchors):
            groups.append(
                (i, functional.pad(part, (0, recipe.anchors - len(part)), value=int(part[-1])))
            )
    longest = max(corpus.lengths)
    context = round_up(recipe.longest) if learner.compiled else longest
    cut = Cut(recipe.block_size, context, learner.frozen.head.dtype)
    for at in range(0, len(groups), recipe.batch):
        some = groups[at : at + recipe.batch]
        some += [some[-1]] * (recipe.batch - len(some) if learner.compiled else 0)
        sequences = torch.tensor([i for i, _ in some])
        anchors = torch.stack([roots for _, roots in some])
        there = sequences.to(learner.device), anchors.to(learner.device)
        yield sequences, anchors, blocks_at(corpus, *there, cut)


def _accepted(
    learner: Learner, blocks: Blocks, hidden: torch.Tensor, budgets: tuple[int, ...]
) -> torch.Tensor:
    """Drafts that a step at each root would accept, by mode: [modes, B, A]."""
    marginals = _marginals(learner.frozen.head, hidden[:, :, 1:], max(budgets))
    root = blocks.tokens[:, :, 0].flatten()
    truth = blocks.tokens.where(blocks.known, -1).flatten(0, 1).roll(-1, 1)
    truth[:, -1] = -1  # what comes after the block nobody drafts
    whole = tree_build(root, marginals, max(budgets))
    trees = [chain(root, marginals), *(whole.prefix(budget + 1) for budget in budgets)]
    found = torch.stack([_agreement(tree, truth) for tree in trees])
    return found.view(-1, *blocks.anchors.shape)


def _marginals(head: torch.Tensor, hidden: torch.Tensor, width: int) -> Marginals:
    """Of hidden [B, A, D, H], with B A rows; a sequence's logits at a time."""
    found = []
    for states in hidden.contiguous():  # a gap between rows makes a slow product of it
        logits = functional.linear(states.to(head.dtype), head).float()  # [A, D, V]
        found.append(marginals(logits, width))
    return Marginals(
        torch.cat([one.tokens for one in found]), torch.cat([one.logprobs for one in found])
    )


def _agreement(tree: DraftTree, truth: torch.Tensor) -> torch.Tensor:
    """How deep each tree [A, N] agrees with the tokens truth [A, D + 1] after its root: [A]."""
    chosen = truth.gather(1, tree.depths.clamp(min=0))
    depth = truth.shape[1] - 1
    return tree_accept(tree, chosen, depth).length - 1

"""What a drafter could say, and what a target could answer, for tests of trees."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree, Marginals


def drafted(rows: int, deep: int, wide: int, levels: int) -> Marginals:
    """Few levels make ties common."""
    generator = torch.Generator().manual_seed(rows + wide)
    raw = torch.randint(0, levels, (rows, deep, wide), generator=generator).float()
    logprobs = torch.log_softmax(raw, -1).sort(-1, descending=True).values
    tokens = torch.rand(rows, deep, 1000, generator=generator).argsort(-1)[..., :wide]
    return Marginals(tokens.contiguous(), logprobs)


def likely(tree: DraftTree) -> torch.Tensor:
    """Choices of the target that often are a child's token."""
    chosen = tree.tokens.clone()
    for row in range(chosen.shape[0]):
        for node in range(chosen.shape[1] - 1, 0, -1):
            if (node * 7 + row) % 3:
                chosen[row, max(int(tree.parents[row, node]), 0)] = tree.tokens[row, node]
    return chosen

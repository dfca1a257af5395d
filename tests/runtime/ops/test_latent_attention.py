"""Latent attention against keys and values written out for every head, over shuffled pages."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.bitmask import pack
from ddtree.ops.latent_attention import latent_attention
from ddtree.ops.tree_attention import Pattern, plan_attention

PAGE, RANK, ROPE, HEADS, NEW = 4, 6, 2, 3, 5
STARTS = (0, 3, 9)
# A root with two children, of which the second has two more
TREE = torch.tensor(
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 1, 0, 1]],
    dtype=torch.bool,
)


def random(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def plain(q: torch.Tensor, seen: torch.Tensor, scale: float) -> torch.Tensor:
    """One query [Hq, C] over the latents it sees [T, C]."""
    shares = (q @ seen.T * scale).softmax(-1)
    return shares @ seen[:, :RANK]


@pytest.mark.parametrize("pattern", ["causal", "tree"])
def test_a_token_sees_the_prefix_and_its_ancestors_through_one_latent_each(pattern: str) -> None:
    rows, pages = len(STARTS), 4
    table = torch.randperm(rows * pages, generator=torch.Generator().manual_seed(1))
    table = table.view(rows, pages)
    start = torch.tensor(STARTS)
    among = TREE if pattern == "tree" else torch.ones(NEW, NEW, dtype=torch.bool).tril()
    said: Pattern | torch.Tensor = "causal"
    if pattern == "tree":
        said = pack(TREE.expand(rows, -1, -1))
    everything = random(rows, max(STARTS) + NEW, RANK + ROPE)
    latents = torch.full((rows * pages * PAGE, 1, RANK + ROPE), torch.nan, dtype=torch.float64)
    for row, begin in enumerate(STARTS):
        for position in range(begin):
            slot = int(table[row, position // PAGE]) * PAGE + position % PAGE
            latents[slot, 0] = everything[row, position]
    plan = plan_attention(start, table, NEW, said, PAGE, max(STARTS) + NEW)
    fresh = torch.stack([everything[row, s : s + NEW] for row, s in enumerate(STARTS)])
    latents.index_copy_(0, plan.write_slots.flatten(), fresh.flatten(0, 1).unsqueeze(1))
    q = random(rows, NEW, HEADS, RANK + ROPE)
    found = latent_attention(q, latents, plan, RANK, scale=0.3)
    for row, begin in enumerate(STARTS):
        for token in range(NEW):
            seen = torch.cat((everything[row, :begin], fresh[row, among[token]]))
            torch.testing.assert_close(found[row, token], plain(q[row, token], seen, 0.3))

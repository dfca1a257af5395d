"""A small Kimi-K2.6 whose ops are the kernels, interpreted, gives the logits of the references."""

from __future__ import annotations

from dataclasses import replace

import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.bitmask import pack
from ddtree.stepbench.measure import random_models
from ddtree.stepbench.shapes import Pair
from tests.runtime.models.session import CPU, Session
from tests.runtime.ops.interpreted import interpreted
from tests.runtime.stepbench.test_rank import small

pytestmark = interpreted
# A root with two children, of which the second has one more
TREE = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)


def with_wider_keys(pair: Pair) -> Pair:
    """Sizes that the kernels take: 32 + 16."""
    assert pair.target.latent is not None
    latent = replace(pair.target.latent, rope_dim=16)
    return replace(pair, target=replace(pair.target, num_layers=2, latent=latent, head_dim=32))


def judged(session: Session) -> torch.Tensor:
    """Logits of a tree's nodes behind what was fed."""
    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    positions = session.start.unsqueeze(1) + torch.tensor([0, 1, 1, 2])
    plan = session.plan(4, pack(TREE).expand(2, -1, -1).contiguous())
    with torch.inference_mode():
        output = session.target.forward(tokens, positions, session.pool, plan)
        return session.target.logits(output.hidden)


def test_a_tree_is_judged_alike_with_kernels_and_without() -> None:
    with kernels_everywhere():  # experts are INT4
        target = random_models(with_wider_keys(small()), torch.float32, CPU).target
    session = Session(target, rows=2)
    session.feed(torch.arange(82).view(2, 41))
    wanted = judged(session)
    session.pool.kv[:, :, session.plan(4, "causal").write_slots.flatten()] = torch.nan
    with kernels_everywhere():
        found = judged(session)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)

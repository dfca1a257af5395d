"""What the verify takes from its plan is what the tree says."""

from __future__ import annotations

import torch

from ddtree.core.batch import DraftTree
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.tree_attention import plan_attention
from ddtree.ops.tree_build import Bounds, chain, root_only, tree_build
from tests.runtime.ops.drafts import drafted
from tests.runtime.ops.interpreted import interpreted

pytestmark = interpreted


def test_the_last_position_that_a_node_sees_is_its_own() -> None:
    start, root = torch.tensor([0, 7, 90]), torch.tensor([1, 2, 3])
    marginals = drafted(3, 5, 70, 9)
    bounds = Bounds(torch.tensor([99, 6, 0]), torch.zeros(3))
    built = tree_build(root, marginals, 70, bounds)
    for tree in (built, built.prefix(14), chain(root, marginals, bounds), root_only(root)):
        assert last(tree, start).equal(start.unsqueeze(1) + tree.depths.clamp(min=0))


def last(tree: DraftTree, start: torch.Tensor) -> torch.Tensor:
    nodes = tree.tokens.shape[1]
    table = torch.arange(1, 31).view(3, 10)
    with kernels_everywhere():
        plan = plan_attention(start, table, nodes, tree.ancestors, 16, 0)
    assert plan.paged is not None
    return plan.paged.last

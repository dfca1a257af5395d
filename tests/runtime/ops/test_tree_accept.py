"""The accepted path equals the oracle's walk."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddtree.core.batch import Marginals
from ddtree.ops.kv_commit import kv_commit
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_build import tree_build
from ddtree.speculate import reference


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 24), st.integers(1, 5))
def test_path_tokens_and_cache_equal_the_oracles(seed: int, budget: int, deep: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # a vocabulary of 4 makes agreement, and so long paths, common
    logprobs = torch.log_softmax(torch.randn(3, deep, 4, generator=generator), -1)
    ordered = logprobs.sort(-1, descending=True)
    marginals = Marginals(ordered.indices, ordered.values)
    tree = tree_build(torch.tensor([1, 2, 3]), marginals, budget)
    chosen = torch.randint(0, 4, tree.tokens.shape, generator=generator)
    verdict = tree_accept(tree, chosen, deep)

    start, cache = 5, list(range(100, 100 + 5 + budget + 1))
    for row in range(3):
        used = int((tree.depths[row] >= 0).sum())
        oracle = reference.Tree(
            tree.tokens[row, :used].tolist(),
            tree.parents[row, :used].tolist(),
            tree.depths[row, :used].tolist(),
        )
        path, tokens = reference.accept(oracle, chosen[row].tolist())
        length = int(verdict.length[row])
        assert verdict.path[row, :length].tolist() == path
        assert verdict.tokens[row, :length].tolist() == tokens

        kv = torch.tensor(cache, dtype=torch.float32).reshape(1, 1, -1, 1, 1).repeat(2, 2, 1, 1, 1)
        moves = torch.arange(deep + 1) < length
        source = start + verdict.path[row]
        target = (start + torch.arange(deep + 1)).where(moves, source)
        kv_commit(kv, source.unsqueeze(0), target.unsqueeze(0))
        committed = kv[1, 1, : start + length, 0, 0].tolist()
        assert committed == reference.commit(list(cache), start, path)


def test_an_unused_node_is_never_accepted() -> None:
    marginals = Marginals(torch.tensor([[[7]]]), torch.zeros(1, 1, 1))
    tree = tree_build(torch.tensor([7]), marginals, 4)  # one candidate for four nodes
    verdict = tree_accept(tree, torch.full((1, 5), 7), 1)
    assert int(verdict.length) == 2
    assert verdict.path.tolist() == [[0, 1]]

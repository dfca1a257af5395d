"""Trees grown on the device equal the oracle's, node for node, ties included."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddtree.core.batch import Marginals
from ddtree.ops.bitmask import unpack
from ddtree.ops.tree_build import Bounds, chain, tree_build
from ddtree.speculate import reference


@st.composite
def marginals(draw: st.DrawFn) -> Marginals:
    """Random marginals; few distinct values, so that ties are common."""
    rows, deep, wide = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 7))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    levels = draw(st.sampled_from([2, 3, 1000]))
    raw = torch.randint(0, levels, (rows, deep, wide), generator=generator).float()
    logprobs = torch.log_softmax(raw, -1).sort(-1, descending=True).values
    tokens = torch.stack(
        [torch.randperm(50, generator=generator)[:wide] for _ in range(rows * deep)]
    ).reshape(rows, deep, wide)
    return Marginals(tokens, logprobs)


@settings(max_examples=150, deadline=None)
@given(marginals(), st.integers(1, 40))
def test_every_row_is_the_oracles_tree(given_marginals: Marginals, budget: int) -> None:
    root = torch.arange(given_marginals.tokens.shape[0]) + 100
    grown = tree_build(root, given_marginals, budget)
    for row in range(root.shape[0]):
        oracle = reference.grow(
            int(root[row]),
            given_marginals.tokens[row].tolist(),
            given_marginals.logprobs[row].tolist(),
            budget,
        )
        used = len(oracle.tokens)
        assert grown.tokens[row, :used].tolist() == oracle.tokens
        assert grown.parents[row, :used].tolist() == oracle.parents
        assert grown.depths[row, :used].tolist() == oracle.depths
        assert (grown.depths[row, used:] == -1).all()
        visible = unpack(grown.ancestors[row], budget + 1)
        for node in range(used):
            assert set(visible[node].nonzero().flatten().tolist()) == oracle.ancestors(node)
        for node in range(used, budget + 1):
            assert visible[node].nonzero().flatten().tolist() == [node]


@settings(max_examples=40, deadline=None)
@given(marginals(), st.integers(1, 20), st.integers(1, 20))
def test_a_smaller_budget_is_a_prefix_of_a_larger_tree(
    given_marginals: Marginals, small: int, more: int
) -> None:
    root = torch.zeros(given_marginals.tokens.shape[0], dtype=torch.int64)
    lesser = tree_build(root, given_marginals, small)
    larger = tree_build(root, given_marginals, small + more)
    cut = larger.prefix(small + 1)
    for name in ("tokens", "parents", "depths", "ancestors", "scores"):
        assert torch.equal(getattr(lesser, name), getattr(cut, name)), name


def test_the_nodes_are_the_most_probable_prefixes() -> None:
    logprobs = torch.log_softmax(torch.randn(1, 3, 4, generator=torch.manual_seed(1)), -1)
    logprobs = logprobs.sort(-1, descending=True).values
    tokens = torch.arange(4).expand(1, 3, 4)
    grown = tree_build(torch.tensor([9]), Marginals(tokens, logprobs), 10)
    prefixes = [
        sum(float(logprobs[0, d, r]) for d, r in enumerate(ranks))
        for deep in (1, 2, 3)
        for ranks in torch.cartesian_prod(*[torch.arange(4)] * deep).reshape(-1, deep).tolist()
    ]
    best = sorted(prefixes, reverse=True)[:10]

    def score(node: int) -> float:
        if node == 0:
            return 0.0
        depth, parent = int(grown.depths[0, node]), int(grown.parents[0, node])
        return score(parent) + float(logprobs[0, depth - 1, int(grown.tokens[0, node])])

    assert grown.scores is not None
    torch.testing.assert_close([score(node) for node in range(1, 11)], best)
    torch.testing.assert_close(grown.scores[0, 1:], torch.tensor(best))


@settings(max_examples=60, deadline=None)
@given(marginals(), st.integers(1, 6))
def test_positions_deeper_than_the_budget_change_nothing(whole: Marginals, budget: int) -> None:
    root = torch.arange(whole.tokens.shape[0]) + 100
    near = Marginals(whole.tokens[:, :budget], whole.logprobs[:, :budget])
    grown, expected = tree_build(root, near, budget), tree_build(root, whole, budget)
    assert torch.equal(grown.tokens, expected.tokens)
    assert torch.equal(grown.parents, expected.parents)
    assert torch.equal(grown.depths, expected.depths)
    assert torch.equal(grown.ancestors, expected.ancestors)


@settings(max_examples=60, deadline=None)
@given(marginals(), st.integers(1, 20), st.integers(0, 22))
def test_a_rows_limit_is_a_smaller_budget_and_no_branch_is_a_chain(
    given_marginals: Marginals, budget: int, limit: int
) -> None:
    rows, deep, _ = given_marginals.tokens.shape
    root = torch.zeros(rows, dtype=torch.int64)
    held = min(limit, budget)
    free, none = torch.zeros(rows), torch.full((rows,), -torch.inf)
    bounded = tree_build(root, given_marginals, budget, Bounds(root + limit, free))
    whole = tree_build(root, given_marginals, budget)
    for name in ("tokens", "parents", "depths", "scores"):
        kept, all_ = getattr(bounded, name)[:, : held + 1], getattr(whole, name)[:, : held + 1]
        assert torch.equal(kept, all_), name
    assert (bounded.depths[:, held + 1 :] == -1).all()
    path = chain(root, given_marginals, Bounds(root + held, none))
    bare = tree_build(root, given_marginals, deep, Bounds(root + held, none))
    for name in ("tokens", "parents", "depths", "ancestors"):
        assert torch.equal(getattr(bare, name), getattr(path, name)), name

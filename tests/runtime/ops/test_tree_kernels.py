"""Build, accept and commit, interpreted, equal their references exactly, ties included."""

from __future__ import annotations

import pytest
import torch

from ddtree.core.batch import Marginals
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.kv_commit import commit_slots, kv_commit
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_build import Bounds, chain, root_only, tree_build
from tests.runtime.ops.drafts import drafted, likely
from tests.runtime.ops.interpreted import interpreted, poison

pytestmark = interpreted
FIELDS = ("tokens", "parents", "depths", "ancestors", "scores")


@pytest.mark.parametrize(
    ("budget", "deep", "wide", "levels"),
    [(1, 1, 1, 3), (5, 1, 2, 3), (9, 3, 9, 2), (16, 15, 16, 10**6), (33, 4, 33, 5), (65, 2, 65, 2)],
    ids=str,
)
def test_trees_and_paths(budget: int, deep: int, wide: int, levels: int) -> None:
    given, root = drafted(2, deep, wide, levels), torch.tensor([3, 4])
    expected = tree_build(root, given, budget)
    with kernels_everywhere():
        got = tree_build(root, given, budget)
    for field in FIELDS:
        assert torch.equal(getattr(got, field), getattr(expected, field)), field
    for nodes in (budget + 1, max(1, budget // 2)):  # a prefix is read in place
        chosen = likely(expected.prefix(nodes))
        verdict = tree_accept(expected.prefix(nodes), chosen, deep)
        with kernels_everywhere():
            found = tree_accept(got.prefix(nodes), chosen, deep)
        assert torch.equal(found.path, verdict.path)
        assert torch.equal(found.length, verdict.length)
        assert torch.equal(found.tokens, verdict.tokens)


def bounds() -> Bounds:
    """A whole tree, one cut short, one of few branches, a chain, and a root."""
    never = -torch.inf
    return Bounds(torch.tensor([99, 4, 99, 99, 0]), torch.tensor([0.0, 0.0, -1.5, never, 0.0]))


@pytest.mark.parametrize(("budget", "deep", "wide"), [(1, 1, 1), (9, 3, 9), (33, 15, 33)], ids=str)
def test_trees_within_bounds(budget: int, deep: int, wide: int) -> None:
    given, root = drafted(5, deep, wide, 9), torch.arange(5) + 3
    expected = tree_build(root, given, budget, bounds())
    with kernels_everywhere(), poison():
        got = tree_build(root, given, budget, bounds())
    for field in FIELDS:
        assert torch.equal(getattr(got, field), getattr(expected, field)), field


@pytest.mark.parametrize("deep", [1, 3, 15])
def test_chains(deep: int) -> None:
    given, root = drafted(5, deep, 2, 9), torch.arange(5) + 3
    expected = chain(root, given, bounds())
    with kernels_everywhere(), poison():
        got = chain(root, given, bounds())
    for field in FIELDS[:-1]:
        assert torch.equal(getattr(got, field), getattr(expected, field)), field
    assert got.scores is None and expected.scores is None


@pytest.mark.parametrize("budget", [12, 40])
def test_tokens_that_are_certain_tie_whatever_their_zeros_sign(budget: int) -> None:
    logprobs = torch.tensor([0.0, -0.0, -1.0, -torch.inf])[torch.randint(0, 4, (3, 4, 5))]
    given, root = Marginals(drafted(3, 4, 5, 9).tokens, logprobs), torch.arange(3) + 3
    expected = tree_build(root, given, budget)
    with kernels_everywhere(), poison():
        got = tree_build(root, given, budget)
    for field in FIELDS:
        assert torch.equal(getattr(got, field), getattr(expected, field)), field


@pytest.mark.parametrize("rows", [1, 63, 129])
def test_roots_alone(rows: int) -> None:
    root = torch.arange(rows) + 3
    expected = root_only(root)
    with kernels_everywhere(), poison():
        got = root_only(root)
    for field in FIELDS[:-1]:
        assert torch.equal(getattr(got, field), getattr(expected, field)), field


@pytest.mark.parametrize("logprob", [-torch.inf, torch.nan])
def test_a_row_without_candidates_is_a_root(logprob: float) -> None:
    given = Marginals(torch.zeros(1, 2, 3, dtype=torch.int64), torch.full((1, 2, 3), logprob))
    with kernels_everywhere():
        tree = tree_build(torch.tensor([8]), given, 3)
    assert tree.depths.tolist() == [[0, -1, -1, -1]]
    assert tree.tokens.tolist() == [[8, 8, 8, 8]]


def test_a_tree_beyond_the_kernels_words_is_refused() -> None:
    with kernels_everywhere(), pytest.raises(ValueError, match="more than a note holds"):
        tree_build(torch.tensor([1]), drafted(1, 2, 9, 9), 257)


@pytest.mark.parametrize("steps", [1, 3, 16])
def test_commits_that_overlap(steps: int) -> None:
    """Path [0, 2, 3, 4 ..]: every source but the first is the next one's target."""
    start, length = torch.tensor([5, 0]), torch.tensor([steps, min(2, steps)])
    path = torch.arange(steps) + (torch.arange(steps) > 0)
    table = (torch.randperm(12) + 1).reshape(2, 6)
    given = (start, table, 4, path.expand(2, -1), length)
    moves = commit_slots(*given)
    with kernels_everywhere(), poison():
        found = commit_slots(*given)
    for field in ("source", "target", "positions"):
        assert torch.equal(getattr(found, field), getattr(moves, field)), field
    here = torch.randn(3, 2, 13 * 4, 3, 100)  # rows of 300: one full block of columns and a rest
    there = here.clone()
    kv_commit(here, moves.source, moves.target)
    with kernels_everywhere():
        kv_commit(there, moves.source, moves.target)
    assert torch.equal(there, here)

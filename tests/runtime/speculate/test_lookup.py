"""Prompt lookup proposes what followed before, as one tree."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ddtree.speculate.lookup import DEPTH, HostTree, Lookup, propose


def paths(tree: HostTree) -> list[list[int]]:
    """The token paths from the root to every leaf."""
    leaves = set(range(len(tree.tokens))) - set(tree.parents)
    found = []
    for leaf in sorted(leaves):
        path = []
        while leaf > 0:
            path.append(tree.tokens[leaf])
            leaf = tree.parents[leaf]
        found.append(path[::-1])
    return found


def test_a_repeated_phrase_proposes_its_continuation() -> None:
    tree = propose(Lookup(), [1, 2, 3, 4, 5, 9, 1, 2], 3, branches=True)
    assert tree.tokens[0] == 2
    assert paths(tree) == [[3, 4, 5]]


def test_two_continuations_become_two_branches_that_share_their_beginning() -> None:
    tokens = [7, 8, 1, 2, 0, 7, 8, 1, 3, 0, 7, 8]
    tree = propose(Lookup(), tokens, 6, branches=True)
    assert paths(tree)[:2] == [[1, 3, 0, 7, 8], [1, 2]]
    assert paths(propose(Lookup(), tokens, 6, branches=False)) == [[1, 3, 0, 7, 8]]


def test_nothing_seen_before_proposes_the_root_alone() -> None:
    assert propose(Lookup(), [1, 2, 3], 8, branches=True) == HostTree([3], [-1], [0])


@settings(max_examples=100, deadline=None)
@given(
    tokens=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    budget=st.integers(1, 30),
    branches=st.booleans(),
    early=st.integers(1, 59),
)
def test_a_tree_is_well_formed_and_growing_the_index_changes_nothing(
    *, tokens: list[int], budget: int, branches: bool, early: int
) -> None:
    fresh = propose(Lookup(), tokens, budget, branches=branches)
    grown = Lookup()
    propose(grown, tokens[: min(early, len(tokens))], budget, branches=branches)
    assert propose(grown, tokens, budget, branches=branches) == fresh

    assert len(fresh.tokens) <= budget + 1
    for node in range(1, len(fresh.tokens)):
        parent = fresh.parents[node]
        assert 0 <= parent < node
        assert fresh.depths[node] == fresh.depths[parent] + 1 <= DEPTH
    edges = list(zip(fresh.parents, fresh.tokens, strict=True))
    assert len(edges) == len(set(edges)), "siblings must differ"
    for path in paths(fresh):
        assert any(tokens[i : i + len(path)] == path for i in range(len(tokens))), (
            "every path was seen before"
        )

"""The end of a step, interpreted, says what the reference says and moves the same rows."""

from __future__ import annotations

import pytest
import torch

from ddtree.core.batch import Verdict
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.tally import Moved, tally
from ddtree.ops.tree_build import root_only, tree_build
from tests.runtime.ops.drafts import drafted
from tests.runtime.ops.interpreted import interpreted

pytestmark = interpreted
BUDGETS = (1, 4, 9)


def moved() -> Moved:
    """Three rows of six entries; the second row is padding."""
    index = torch.tensor([4, 5, 0])
    return Moved(index, padding=5, start=torch.arange(10, 16), root=torch.arange(6))


def verdict(levels: int) -> Verdict:
    torch.manual_seed(levels)
    length = torch.randint(1, levels + 1, (3,))
    tokens = torch.randint(0, 50_000, (3, levels))
    return Verdict(path=torch.zeros(3, levels, dtype=torch.int64), length=length, tokens=tokens)


@pytest.mark.parametrize("verified", [4, 9])
def test_a_drafted_step(verified: int) -> None:
    built = tree_build(torch.tensor([7, 8, 9]), drafted(3, 5, 9, 3), 9)
    assert built.scores is not None
    tree, said = built.prefix(verified + 1), verdict(6)
    peak = torch.full((3, verified + 1), 3.5)
    peak[1, -1], peak[2, 0] = torch.nan, torch.inf
    expected_rows, rows = moved(), moved()
    expected = tally(tree, built.scores, said, peak, BUDGETS, expected_rows)
    with kernels_everywhere():
        got = tally(tree, built.scores, said, peak, BUDGETS, rows)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    assert got[:, 2].tolist() == [1.0, 0.0, 0.0]
    assert torch.equal(rows.start, expected_rows.start) and rows.start[5] == 15
    assert torch.equal(rows.root, expected_rows.root)


def test_a_step_without_a_draft_promises_nothing() -> None:
    tree, said, rows = root_only(torch.tensor([7, 8, 9])), verdict(1), moved()
    with kernels_everywhere():
        got = tally(tree, None, said, torch.ones(3, 1), (), rows)
    assert torch.equal(got, tally(tree, None, said, torch.ones(3, 1), (), moved()))
    with pytest.raises(ValueError, match="no scores"):
        tally(tree, None, said, torch.ones(3, 1), (4,), rows)

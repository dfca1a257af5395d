"""The block that a drafter fills: one root, masks, and positions that go on from it."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.draft_block import draft_block
from tests.runtime.ops.interpreted import interpreted, poison


def test_a_root_and_its_masks() -> None:
    tokens, positions = draft_block(torch.tensor([3, 9]), torch.tensor([0, 41]), 7, 4)
    assert tokens.tolist() == [[3, 7, 7, 7], [9, 7, 7, 7]]
    assert positions.tolist() == [[0, 1, 2, 3], [41, 42, 43, 44]]


@interpreted
@pytest.mark.parametrize("size", [1, 8, 13, 16])
def test_the_kernel_s_block_is_the_reference_s(size: int) -> None:
    root, start = torch.randint(0, 50_000, (5,)), torch.randint(0, 8000, (5,))
    expected = draft_block(root, start, 16, size)
    with kernels_everywhere(), poison():
        got = draft_block(root, start, 16, size)
    assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])

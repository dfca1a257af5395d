"""Rows of a table, whole or a rank's share of it."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.embed import embed
from tests.runtime.ops.interpreted import interpreted, poison


def test_the_shares_of_a_table_add_up_to_it() -> None:
    table, tokens = torch.randn(12, 5), torch.randint(0, 12, (2, 7))
    assert torch.equal(embed(tokens, table), table[tokens])
    shares = [embed(tokens, table[first : first + 4], first) for first in (0, 4, 8)]
    assert torch.equal(torch.stack(shares).sum(0), table[tokens])


@interpreted
@pytest.mark.parametrize("hidden", [1, 63, 576, 1111])
@pytest.mark.parametrize("first", [0, 3])
def test_the_kernel_s_rows_are_the_reference_s(hidden: int, first: int) -> None:
    table, tokens = torch.randn(9, hidden), torch.randint(0, 12, (2, 3))
    expected = embed(tokens, table, first)
    with kernels_everywhere(), poison():
        assert torch.equal(embed(tokens, table, first), expected)

"""What a step judges: near positions always, far ones in turns, each as much as the recipe says."""

from __future__ import annotations

import math

import pytest
import torch

from ddtree.train.learn import FEW, parts_of
from ddtree.train.recipe import Recipe


@pytest.mark.parametrize("block", [2, 6, 7, 8, 9, 10, 16, 17])
def test_in_turns_every_position_counts_what_it_weighs(block: int) -> None:
    parts = parts_of(Recipe("model", block_size=block, gamma=4.0), torch.device("cpu"))
    assert len({len(part.after) for part in parts}) == 1  # one shape, one compilation
    total = torch.zeros(block)
    for part in parts:
        total[part.after] += part.weight / FEW
    assert total[0] == 0
    wanted = torch.tensor([math.exp(-k / 4.0) for k in range(block - 1)])
    torch.testing.assert_close(total[1:], wanted)


def test_a_block_of_sixteen_costs_nine_positions_of_fifteen() -> None:
    (size,) = {len(part.after) for part in parts_of(Recipe("model"), torch.device("cpu"))}
    assert size == 9

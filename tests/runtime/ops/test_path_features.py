"""Features of accepted nodes, interpreted, are the joined rows of their layers, bit by bit."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.path_features import path_features
from tests.runtime.ops.interpreted import interpreted, poison

pytestmark = interpreted


@pytest.mark.parametrize("count", [1, 5, 8, 11])
@pytest.mark.parametrize(("nodes", "width"), [(1, 7), (17, 64), (9, 100)])
def test_rows_of_several_layers(count: int, nodes: int, width: int) -> None:
    layers = tuple(torch.randn(3, nodes, width) for _ in range(count))
    path = torch.randint(0, nodes, (3, 6))
    expected = path_features(layers, path)
    assert expected[2, 5].equal(torch.cat([layer[2, path[2, 5]] for layer in layers]))
    with kernels_everywhere(), poison():
        assert path_features(layers, path).equal(expected)


def test_nodes_that_are_not_on_the_path_may_be_anything() -> None:
    layers = (torch.full((1, 4, 5), torch.nan), torch.full((1, 4, 5), torch.nan))
    for layer in layers:
        layer[0, 2] = 3.0
    with kernels_everywhere(), poison():
        assert path_features(layers, torch.tensor([[2, 2]])).eq(3.0).all()

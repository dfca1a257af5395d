"""The choice of experts, interpreted, is the reference's, ties included."""

from __future__ import annotations

import pytest
import torch

from ddtree.config import Experts, SigmoidRouting
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.routing import route
from tests.runtime.ops.interpreted import interpreted

KINDS = [
    SigmoidRouting(1, 1, scaling=2.827),
    SigmoidRouting(4, 2, scaling=2.5),
    SigmoidRouting(6, 1, scaling=1.0),
    None,
]


def mixture(routing: SigmoidRouting | None, *, normalised: bool = True, count: int = 24) -> Experts:
    return Experts(count, 4, intermediate_size=4, normalised=normalised, sigmoid=routing)


def test_of_equal_experts_and_groups_the_first_are_chosen() -> None:
    same = torch.zeros(3, 24)
    for routing in KINDS:
        chosen, _ = route(same, mixture(routing), torch.zeros(24))
        assert chosen.tolist() == [[0, 1, 2, 3]] * 3


@interpreted
@pytest.mark.parametrize("routing", KINDS, ids=["flat", "two of four", "one of six", "softmax"])
@pytest.mark.parametrize("levels", [3, 1000])
@pytest.mark.parametrize("normalised", [False, True], ids=["plain", "normalised"])
def test_the_kernel_chooses_and_weighs_as_the_reference(
    routing: SigmoidRouting | None, levels: int, normalised: object
) -> None:
    torch.manual_seed(levels)
    logits = torch.randint(-levels, levels + 1, (2, 20, 24)) * (4 / levels)
    correction = torch.randint(-2, 3, (24,)) / 8
    wanted = route(logits, mixture(routing, normalised=bool(normalised)), correction)
    with kernels_everywhere():
        found = route(logits, mixture(routing, normalised=bool(normalised)), correction)
    assert found[0].equal(wanted[0])
    torch.testing.assert_close(found[1], wanted[1])


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scores_that_are_no_numbers_name_experts_that_exist() -> None:
    logits = torch.full((2, 21), torch.nan)
    for routing in (KINDS[0], None):
        with kernels_everywhere():
            chosen, _ = route(logits, mixture(routing, count=21), torch.zeros(21))
        assert ((chosen >= 0) & (chosen < 21)).all()

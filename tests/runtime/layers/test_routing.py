"""Routers against a plain statement of what they choose, one token at a time."""

from __future__ import annotations

import pytest
import torch

from ddtree.config import Experts, SigmoidRouting
from ddtree.layers.linear import Linear
from ddtree.layers.routing import SigmoidRouter, SoftmaxRouter

HIDDEN, COUNT = 16, 12
GATE = torch.randn(COUNT, HIDDEN, generator=torch.Generator().manual_seed(1))
CORRECTION = torch.randn(COUNT, generator=torch.Generator().manual_seed(2))
X = torch.randn(2, 7, HIDDEN, generator=torch.Generator().manual_seed(3))


def experts(
    active: int, routing: SigmoidRouting | None = None, *, normalised: bool = False
) -> Experts:
    return Experts(COUNT, active, intermediate_size=4, normalised=normalised, sigmoid=routing)


@pytest.mark.parametrize(("groups", "admitted"), [(1, 1), (3, 3), (4, 2), (6, 1)])
def test_the_best_groups_are_chosen_by_their_two_best_and_experts_from_them(
    groups: int, admitted: int
) -> None:
    routing = SigmoidRouting(groups, admitted, scaling=2.5)
    router = SigmoidRouter(Linear(GATE), CORRECTION, experts(2, routing, normalised=True))
    chosen, weights = router(X)
    size = COUNT // groups
    tokens = zip(X.view(-1, HIDDEN), chosen.view(-1, 2), weights.view(-1, 2), strict=True)
    for token, picked, shares in tokens:
        scores = (GATE @ token).sigmoid()
        corrected = (scores + CORRECTION).tolist()
        parts = [corrected[i : i + size] for i in range(0, COUNT, size)]
        judged = [sum(sorted(part)[-2:]) for part in parts]
        inside = sorted(range(groups), key=lambda i: -judged[i])[:admitted]
        able = [i for i in range(COUNT) if i // size in inside]
        wanted = sorted(able, key=lambda i: -corrected[i])[:2]
        assert picked.tolist() == wanted
        own = scores[wanted]
        torch.testing.assert_close(shares, own / own.sum() * 2.5)


def test_the_correction_chooses_and_does_not_weigh() -> None:
    correction = torch.zeros(COUNT)
    correction[5] = 10.0
    routing = SigmoidRouting(1, 1, scaling=1.0)
    router = SigmoidRouter(Linear(GATE), correction, experts(1, routing))
    chosen, weights = router(X)
    assert chosen.eq(5).all()
    torch.testing.assert_close(weights.squeeze(-1), (X @ GATE[5]).sigmoid())


def test_sigmoid_scores_of_a_bfloat16_token_are_float32() -> None:
    routing = SigmoidRouting(1, 1, scaling=1.0)
    router = SigmoidRouter(Linear(GATE), CORRECTION, experts(3, routing))
    rounded = X.bfloat16()
    assert torch.equal(router(rounded)[1], router(rounded.float())[1])


@pytest.mark.parametrize("normalised", [False, True])
def test_a_softmax_over_all_weighs_the_chosen(*, normalised: bool) -> None:
    chosen, weights = SoftmaxRouter(Linear(GATE), experts(3, normalised=normalised))(X)
    shares = (X @ GATE.T).softmax(-1)
    best = shares.sort(-1, descending=True)
    assert chosen.equal(best.indices[..., :3])
    wanted = best.values[..., :3]
    if normalised:
        wanted = wanted / wanted.sum(-1, keepdim=True)
    torch.testing.assert_close(weights, wanted)

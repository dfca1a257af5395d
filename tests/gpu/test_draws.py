"""Draws on a device have the distribution that their filters leave: against float64, not an op."""

from __future__ import annotations

import pytest
import scipy
import torch

from ddtree.ops.sample import Chance, Narrowing, sample
from tests.gpu import engine as shared

pytestmark = pytest.mark.gpu
COUNT = 40_000


def left(logits: torch.Tensor, sampling: tuple[float, int, float, float]) -> torch.Tensor:
    """Probabilities after temperature, then what min_p and top_k leave, then top_p of that."""
    temperature, top_k, min_p, top_p = sampling
    p = torch.softmax(logits.double() / temperature, -1)
    p = torch.where(p >= min_p * p.max(), p, 0.0)
    if top_k:
        p = torch.where(p >= p.topk(top_k).values[-1], p, 0.0)
    p = p / p.sum()
    ordered, order = p.sort(descending=True)
    ordered = torch.where(ordered.cumsum(0) - ordered < top_p, ordered, 0.0)
    p = torch.zeros_like(p).scatter(0, order, ordered)
    return p / p.sum()


@pytest.mark.parametrize(
    "sampling",
    [
        (1.0, 0, 0.0, 1.0),
        (0.7, 5, 0.0, 1.0),
        (1.3, 0, 0.15, 1.0),
        (1.0, 0, 0.0, 0.8),
        (0.9, 12, 0.02, 0.9),
        (1.0, 1, 0.0, 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("vocabulary", [33, 2000])
def test_draws_have_the_distribution_that_is_left(
    vocabulary: int, sampling: tuple[float, int, float, float]
) -> None:
    logits = torch.randn(vocabulary, generator=torch.manual_seed(vocabulary)) * 2
    temperature, top_k, min_p, top_p = (
        torch.full((COUNT,), value, device=shared.DEVICE) for value in sampling
    )
    seeds = torch.arange(COUNT, device=shared.DEVICE)
    drawn = sample(
        logits.to(shared.DEVICE).expand(COUNT, 1, -1).contiguous(),
        temperature,
        top_p,
        Chance(seeds, torch.full_like(seeds, 16).unsqueeze(1)),
        method="nucleus",
        narrowing=Narrowing(top_k, min_p),
    ).tokens
    counts = torch.bincount(drawn.flatten().cpu(), minlength=vocabulary)
    expected = left(logits, sampling) * COUNT
    assert counts[expected == 0].sum() == 0
    common = expected >= 5  # chi-square wants some of each; the rest is one more kind
    kinds = [
        torch.cat((each[common], each[~common].sum().unsqueeze(0))) for each in (counts, expected)
    ]
    seen = kinds[1] > 0
    if seen.sum() > 1:
        assert scipy.stats.chisquare(kinds[0][seen].numpy(), kinds[1][seen].numpy()).pvalue > 1e-4

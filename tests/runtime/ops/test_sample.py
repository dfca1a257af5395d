"""Sampling follows the target's distribution, and a seed's draw depends on its position only."""

import scipy
import torch
from hypothesis import given
from hypothesis import strategies as st

from ddtree.ops.sample import Chance, sample, uniform


def test_uniform_numbers_are_uniform_and_differ_by_seed_and_position() -> None:
    numbers = uniform(torch.arange(200).unsqueeze(1), torch.arange(500).unsqueeze(0))
    assert scipy.stats.kstest(numbers.flatten().numpy(), "uniform").pvalue > 1e-3
    assert len(set(numbers.flatten().tolist())) == numbers.numel()
    across_seeds = torch.corrcoef(numbers)
    assert (across_seeds - torch.eye(200)).abs().max() < 0.25  # 500 samples: 5.6 sigma


@given(st.integers(0, 2**62), st.integers(0, 2**20))
def test_uniform_stays_inside_the_open_interval(seed: int, position: int) -> None:
    number = float(uniform(torch.tensor(seed), torch.tensor(position)))
    assert 0.0 < number < 1.0


def _draws(logits: torch.Tensor, temperature: float, top_p: float, count: int) -> torch.Tensor:
    return sample(
        logits.expand(count, 1, -1),
        torch.full((count,), temperature),
        torch.full((count,), top_p),
        Chance(torch.arange(count), torch.full((count, 1), 16)),
        method="nucleus" if top_p < 1 else "full",
    ).tokens.flatten()


def test_draws_have_the_tempered_distribution() -> None:
    logits = torch.randn(8, generator=torch.manual_seed(3))
    counts = torch.bincount(_draws(logits, 0.7, 1.0, 40_000), minlength=8)
    expected = torch.softmax(logits.double() / 0.7, -1) * 40_000
    assert scipy.stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3


def test_top_p_keeps_the_smallest_set_that_reaches_it_and_renormalises() -> None:
    logits = torch.tensor([0.5, 0.2, 0.2, 0.1]).log()
    counts = torch.bincount(_draws(logits, 1.0, 0.6, 40_000), minlength=4)
    assert counts[3] == 0 and counts[2] == 0
    expected = torch.tensor([5 / 7, 2 / 7], dtype=torch.float64) * 40_000
    assert scipy.stats.chisquare(counts[:2].numpy(), expected.numpy()).pvalue > 1e-3


def test_temperature_zero_is_argmax_even_beside_a_hot_row() -> None:
    logits = torch.randn(2, 3, 11, generator=torch.manual_seed(5))
    chance = Chance(torch.tensor([1, 2]), torch.arange(3).expand(2, -1))
    chosen = sample(logits, torch.tensor([0.0, 1.0]), torch.ones(2), chance, method="nucleus")
    assert chosen.tokens[0].tolist() == logits[0].argmax(-1).tolist()


def test_a_tiny_top_p_is_argmax() -> None:
    logits = torch.randn(9, generator=torch.manual_seed(6))
    assert (_draws(logits, 1.5, 1e-9, 500) == logits.argmax()).all()

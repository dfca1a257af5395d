"""What is kept of a sequence, and the blocks that are cut out of it."""

from __future__ import annotations

import torch

from ddtree.core.batch import Marginals
from ddtree.train.corpus import (
    LIKELY,
    Corpus,
    Cut,
    Staged,
    blocks_at,
    draw,
    mixed_seed,
    scales_of,
)

HIDDEN, LAYERS, LONGEST = 8, 2, 20
PROMPTS, LENGTHS = [4, 2, 6], [15, 9, 20]


def staged() -> Staged:
    """A token's features, and what is likely after it, are 100 times its row plus its place."""
    number = 100.0 * torch.arange(1, 4).unsqueeze(1) + torch.arange(LONGEST)
    features = number.unsqueeze(2).expand(-1, -1, LAYERS * HIDDEN)
    scales = scales_of(features.flatten(0, 1), HIDDEN)
    after = number.unsqueeze(2).expand(-1, -1, LIKELY)
    return Staged(number.long(), scales.pack(features), Marginals(after.long(), -after))


def corpus(capacity: int = 100) -> Corpus:
    stage = staged()
    number = stage.tokens.float().flatten().unsqueeze(1)
    scales = scales_of(number.expand(-1, LAYERS * HIDDEN), HIDDEN)
    made = Corpus(capacity, scales, torch.device("cpu"))
    made.add(torch.arange(3), PROMPTS, LENGTHS, stage)
    return made


def test_a_block_is_the_root_what_follows_and_all_before() -> None:
    anchors = torch.tensor([[4, 12], [6, 18]])
    blocks = blocks_at(corpus(), torch.tensor([0, 2]), anchors, Cut(4, 18, torch.float32))
    assert blocks.tokens[0].tolist() == [[104, 105, 106, 107], [112, 113, 114, 200]]
    assert blocks.known[0].tolist() == [[True] * 4, [True] * 3 + [False]]
    assert blocks.known[1].tolist() == [[True] * 4, [True, True, False, False]]
    assert blocks.likely.tokens[1, 0, :, 0].tolist() == [306, 307, 308, 309]
    assert blocks.likely.logprobs[0, 1, :, 1].tolist() == [-112, -113, -114, -200]
    for row, first in ((0, 100), (1, 300)):
        wanted = first + torch.arange(int(anchors[row, 0]))
        found = blocks.features[row, : len(wanted), 0]
        assert ((found - wanted).abs() <= wanted * 2**-4).all()  # three bits behind the point


def test_a_full_corpus_takes_no_sequence_in_part() -> None:
    small = corpus(capacity=30)
    assert small.full
    assert (small.lengths, small.size) == ([15, 9], 24)


def test_features_that_do_not_fit_eight_bits_are_cut_off_and_stay_finite() -> None:
    features = torch.randn(50, LAYERS * HIDDEN)
    scales = scales_of(features, HIDDEN)
    features[0] = 1e6
    found = scales.unpack(scales.pack(features), torch.float32)
    assert found.isfinite().all()
    assert (found[1:] - features[1:]).norm() < 0.04 * features[1:].norm()


def test_roots_are_drawn_evenly_from_answers_and_never_at_the_last_token() -> None:
    made = corpus()
    counts = [torch.zeros(length) for length in LENGTHS]
    for seed in range(2000):
        sequences, anchors = draw(made, seed, 2, 3)
        assert (anchors.diff(dim=1) >= 0).all()
        for sequence, roots in zip(sequences.tolist(), anchors.tolist(), strict=True):
            for root in roots:
                counts[sequence][root] += 1
    each = torch.cat([c[p : n - 1] for c, p, n in zip(counts, PROMPTS, LENGTHS, strict=True)])
    assert sum(c.sum() for c in counts) == each.sum() == 12000
    assert each.min() > 0.7 * each.mean()
    assert each.max() < 1.3 * each.mean()


def test_a_step_is_drawn_alike_every_time_and_unlike_its_neighbours() -> None:
    made = corpus()
    first, again, next_one = (draw(made, mixed_seed(7, step), 2, 3)[1] for step in (5, 5, 6))
    assert first.equal(again)
    assert not first.equal(next_one)

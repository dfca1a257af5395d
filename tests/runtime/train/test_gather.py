"""A round comes out of its number, is unlike the others, and asks nothing that is held out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ddtree.models.load import load_target
from ddtree.train.corpus import Corpus
from ddtree.train.gather import Gatherer
from ddtree.train.recipe import Recipe
from tests.runtime.models.session import CPU
from tests.runtime.train.tiny_run import Letters, recipe, write_target

LAYERS = (0, 1)


class WholeLetters(Letters):
    """Prompts to their last letter: cut ones would be alike."""

    def encode(self, text: str) -> list[int]:
        return [1 + ord(letter) % 38 for letter in text]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return recipe(write_target(tmp_path_factory.mktemp("target")), tokens=6000, prompt_tokens=160)


def gatherer(made: Recipe) -> Gatherer:
    return Gatherer(load_target(Path(made.model), torch.float32, CPU), WholeLetters(), made, LAYERS)


def prompts(corpus: Corpus) -> set[tuple[int, ...]]:
    pairs = zip(corpus.offsets, corpus.prompts, strict=True)
    return {tuple(corpus.tokens[at : at + size].tolist()) for at, size in pairs}


def test_a_round_is_the_same_whenever_it_is_gathered(small: Recipe) -> None:
    first, again = gatherer(small), gatherer(small)
    first.held_out()
    first.round(0)
    again.held_out()
    one, other = first.round(1), again.round(1)
    assert one.lengths == other.lengths
    for name in ("tokens", "features"):
        assert getattr(one, name).equal(getattr(other, name)), name
    assert one.likely.tokens.equal(other.likely.tokens)
    assert one.likely.logprobs.equal(other.likely.logprobs)
    assert one.full


def test_rounds_and_seeds_ask_for_different_things(small: Recipe) -> None:
    here = gatherer(small)
    asked = [prompts(here.round(number)) for number in (0, 1)]
    asked.append(prompts(gatherer(replace(small, seed=1)).round(0)))
    for i, one in enumerate(asked):
        for other in asked[:i]:
            assert len(one & other) < 0.3 * len(one)  # short chats of a tiny target come twice


def test_nothing_that_is_held_out_is_trained_on(small: Recipe) -> None:
    here = gatherer(small)
    held = here.held_out()
    assert not prompts(held.corpus) & prompts(here.round(0))
    assert len(held.kinds) == len(held.corpus.lengths) == len(held.loops)


def test_held_out_answers_are_greedy_whatever_the_share_of_warm_ones(small: Recipe) -> None:
    cold = gatherer(replace(small, warm_share=0.0)).held_out()
    warm = gatherer(replace(small, warm_share=1.0)).held_out()
    assert cold.corpus.tokens.equal(warm.corpus.tokens)

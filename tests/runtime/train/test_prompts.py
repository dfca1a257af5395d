"""Prompts come out of a seed, and what is held out is never trained on."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from ddtree.train import prompts
from ddtree.train.prompts import (
    Kind,
    all_hand_written,
    distinct,
    frame_of,
    generated,
    hand_written,
    mixed,
    openers,
)
from tests.runtime.train.tiny_run import Letters

KINDS: tuple[Kind, ...] = ("code", "question")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_prompts(kind: Kind) -> None:
    first, again, other = (
        list(islice(generated(kind, seed, held_out=False), 20)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_prompts_are_about_other_things(kind: Kind) -> None:
    trained = set(islice(generated(kind, 3, held_out=False), 5000))
    held_out = distinct(generated(kind, 3, held_out=True), 96)
    assert len(held_out) == 96
    assert not trained & set(held_out)


def test_no_template_leaves_a_hole() -> None:
    for kind in KINDS:
        assert not any("{" in text for text in islice(generated(kind, 4, held_out=False), 2000))


def test_hand_written_prompts_are_of_two_kinds_and_in_no_template() -> None:
    hand = hand_written()
    assert {kind: len(texts) for kind, texts in hand.items()} == {"hand code": 24, "hand chat": 24}
    generated_ones = {
        text for kind in KINDS for text in islice(generated(kind, 5, held_out=False), 5000)
    }
    assert not generated_ones & {text for texts in hand.values() for text in texts}


def test_sources_are_mixed_by_their_shares() -> None:
    stream = mixed({"a": lambda: "a", "b": lambda: "b"}, {"a": 0.8, "b": 0.2}, seed=1)
    counted = Counter(islice(stream, 2000))
    assert 0.75 < counted["a"] / 2000 < 0.85


def test_a_chat_is_cut_where_the_user_speaks() -> None:
    assert frame_of(Letters()) == prompts.Frame("<", ">")


def test_a_template_that_swallows_the_user_is_refused() -> None:
    class Deaf(Letters):
        def render(self, user: str) -> str:
            return "<hello>"

    with pytest.raises(ValueError, match="does not show the user's message"):
        frame_of(Deaf())


def test_one_user_in_five_begins_alone_and_no_beginning_is_a_hand_written_prompt() -> None:
    beginnings = openers()
    assert 0.15 < beginnings.count("") / len(beginnings) < 0.25
    assert not set(beginnings) & all_hand_written()

"""The rolling hash against a set of all grams."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ddtree.train.loops import GRAM, in_loop


def told_by_a_set(tokens: list[int], prompt: int) -> list[bool]:
    seen: set[tuple[int, ...]] = set()
    flags = []
    for end in range(1, len(tokens) + 1):
        gram = tuple(tokens[end - GRAM : end]) if end - GRAM >= prompt else None
        flags.append(gram is not None and gram in seen)
        if gram is not None:
            seen.add(gram)
    return flags


@given(st.data())
def test_a_position_is_in_a_loop_once_its_gram_has_been_there(data: st.DataObject) -> None:
    prompt = data.draw(st.integers(0, 6))
    free = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=40))
    period = data.draw(st.integers(1, 20))
    tokens = list(free)
    while len(tokens) < 70:
        tokens.append(tokens[-min(period, len(tokens))])
    assert in_loop(torch.tensor(tokens), prompt).tolist() == told_by_a_set(tokens, prompt)

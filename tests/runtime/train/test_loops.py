"""The rolling hash on the device against the set of all grams."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ddtree.train.loops import GRAM, LoopWatch, in_loop

CPU = torch.device("cpu")


@given(st.data())
def test_rows_are_watched_as_each_alone_would_be(data: st.DataObject) -> None:
    rows, begins = [], []
    for _ in range(3):
        tokens = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=40))
        period = data.draw(st.integers(1, 20))
        while len(tokens) < 70:
            tokens.append(tokens[-min(period, len(tokens))])
        rows.append(tokens)
        begins.append(data.draw(st.integers(0, 6)))
    watch = LoopWatch(3, 70, CPU)
    watch.admit(torch.arange(3), torch.tensor(begins))
    wanted = [in_loop(tokens, begin) for tokens, begin in zip(rows, begins, strict=True)]
    written = torch.tensor(rows)
    for step in range(70 - max(begins)):
        at = torch.tensor(begins) + step
        found = watch.add(written, at).tolist()
        assert found == [flags[place] for flags, place in zip(wanted, at.tolist(), strict=True)]


def test_the_second_time_round_is_a_loop_once_a_whole_gram_is_the_same() -> None:
    tokens = [9, 8, *range(20), *range(20)]
    assert in_loop(tokens, 0).index(True) == 2 + 20 + GRAM - 1
    assert in_loop(tokens, 5).index(True) == 5 + 20 + GRAM - 1
    assert not any(in_loop(list(range(40)), 0))

"""Stop strings are found wherever the pieces end, and nothing certain is held back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtree.server.stops import StopFinder

texts = st.text("ab", max_size=30)
stops = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


def cut(pieces: list[str], stop: list[str]) -> tuple[str, str | None]:
    finder = StopFinder(stop)
    text = "".join(finder.push(piece) for piece in pieces)
    return (text if finder.found else text + finder.flush()), finder.found


@given(texts, stops, st.lists(st.integers(0, 30), max_size=6))
def test_the_cut_does_not_depend_on_where_the_pieces_end(
    text: str, stop: list[str], borders: list[int]
) -> None:
    at = [0, *sorted(borders), len(text)]
    pieces = [text[a:b] for a, b in pairwise(at)]
    assert cut(pieces, stop) == cut(list(text), stop)


@given(texts, stops)
def test_text_without_a_stop_string_comes_through_whole(text: str, stop: list[str]) -> None:
    absent = [s for s in stop if s not in text]
    assert cut([text], absent) == (text, None)


@given(texts, st.text("ab", min_size=1, max_size=4))
def test_text_is_cut_before_the_first_stop_string(text: str, stop: str) -> None:
    kept, found = cut([text, stop], [stop])
    assert found == stop
    assert kept == (text + stop).partition(stop)[0]


def test_the_stop_string_that_is_complete_first_wins() -> None:
    assert cut(["abcX"], ["abcX", "bc"]) == ("a", "bc")


def test_of_two_complete_at_once_the_longer_cuts() -> None:
    assert cut(["xaab"], ["ab", "aab"]) == ("x", "aab")


@pytest.mark.parametrize(
    ("text", "certain"), [("foo\n", "foo"), ("foo\nx", "foo\nx"), ("foo", "foo"), ("\n\n", "\n")]
)
def test_only_what_may_begin_a_stop_string_is_held_back(text: str, certain: str) -> None:
    assert StopFinder(["\nUser:"]).push(text) == certain

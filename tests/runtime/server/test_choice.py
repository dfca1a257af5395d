"""An answer is put together from arrivals: text, counts, logprobs, and why it ended."""

from __future__ import annotations

from ddtree.core.sequence import Finish, TokenLogprob
from ddtree.server.choice import Choice, Piece
from ddtree.server.inbox import Arrival
from tests.runtime.server.double import EOS, ByteTokenizer


def choice(*stops: str) -> Choice:
    return Choice(ByteTokenizer(), stops, frozenset({EOS}))


def arrival(text: str, finish: Finish | None = None, *, logprobs: bool = False) -> Arrival:
    tokens = list(text.encode())
    said = [TokenLogprob(token, -1.0, ()) for token in tokens] if logprobs else []
    return Arrival(tokens, said, finish)


def test_a_character_in_two_arrivals_is_sent_once_it_is_whole() -> None:
    euro, answer = "€".encode(), choice()
    assert answer.feed(Arrival([*b"1 ", *euro[:2]])) == Piece("1 ")
    assert answer.feed(Arrival([euro[2]])) == Piece("€")


def test_the_end_token_is_counted_but_is_no_text() -> None:
    answer = choice()
    assert answer.feed(Arrival([*b"hi", EOS], finish=Finish.STOP)) == Piece("hi", finish="stop")
    assert answer.tokens == 3


def test_an_unfinished_character_at_the_end_is_shown_as_such() -> None:
    assert choice().feed(Arrival([0xE2, 0x82], finish=Finish.LENGTH)).text == "\ufffd"


def test_a_stop_string_cuts_the_text_but_not_the_count() -> None:
    answer = choice("STOP")
    assert answer.feed(arrival("one ST")) == Piece("one ")
    assert answer.feed(arrival("OP two")) == Piece("", finish="stop")
    assert (answer.stopped, answer.tokens) == (True, 12)


def test_text_that_only_looked_like_a_stop_string_comes_at_the_end() -> None:
    answer = choice("STOP")
    assert answer.feed(arrival("a ST")).text == "a "
    assert answer.feed(Arrival(finish=Finish.LENGTH)) == Piece("ST", finish="length")


def test_logprobs_are_held_back_with_their_text_and_dropped_behind_the_stop() -> None:
    answer = choice("bc")
    first = answer.feed(arrival("ab", logprobs=True))
    last = answer.feed(arrival("cd", logprobs=True))
    assert [(one.token, one.offset) for one in first.logprobs] == [(b"a", 0)]
    assert last == Piece("", finish="stop")


def test_logprobs_of_a_whole_answer_spell_its_text() -> None:
    answer = choice("never")
    pieces = [
        answer.feed(arrival("h€n", logprobs=True)),
        answer.feed(arrival("e", Finish.LENGTH, logprobs=True)),
    ]
    named = [one for piece in pieces for one in piece.logprobs]
    assert b"".join(one.token for one in named).decode() == "h€ne"
    assert [one.offset for one in named] == [0, 1, 1, 1, 2, 3]

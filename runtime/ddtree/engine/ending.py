"""When a request is over: pure decisions about what one step committed."""

from __future__ import annotations

from typing import NamedTuple

from ddtree.core.sequence import Finish, Sequence


class Kept(NamedTuple):
    """The part of a step's tokens that the request still wanted, and why it ended, if it did."""

    tokens: list[int]
    finish: Finish | None


def keep(sequence: Sequence, tokens: list[int]) -> Kept:
    """Cut `tokens` at the first stop token (kept), or where the sequence must end."""
    room = sequence.end - len(sequence.tokens)
    stops = sequence.request.stop_token_ids
    if not stops.isdisjoint(tokens):
        for i, token in enumerate(tokens[:room]):
            if token in stops:
                return Kept(tokens[: i + 1], Finish.STOP)
    if len(tokens) >= room:
        return Kept(tokens[:room], Finish.LENGTH)
    return Kept(tokens, None)

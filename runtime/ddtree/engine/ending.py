"""When a request is over: pure decisions about what one step committed."""

from __future__ import annotations

from dataclasses import dataclass

from ddtree.core.sequence import Finish, Sequence


@dataclass(frozen=True)
class Kept:
    """The part of a step's tokens that the request still wanted, and why it ended, if it did."""

    tokens: list[int]
    finish: Finish | None


def keep(sequence: Sequence, tokens: list[int], context_length: int) -> Kept:
    """Cut `tokens` at the first stop token (kept), at max_tokens, or at the context's end."""
    room = min(
        sequence.request.max_tokens - sequence.answer_length,
        context_length - len(sequence.tokens),
    )
    for i, token in enumerate(tokens[:room]):
        if token in sequence.request.stop_token_ids:
            return Kept(tokens[: i + 1], Finish.STOP)
    if len(tokens) >= room:
        return Kept(tokens[:room], Finish.LENGTH)
    return Kept(tokens, None)

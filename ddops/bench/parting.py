"""Where two answers to one prompt part, from the marks that their traces keep of the text. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ddops.spec.record import Trace

_DIGITS = 4


@dataclass(frozen=True)
class Parting:
    """The first token that differs is one of `first` to `last`, counted from 1."""

    prompt: str
    first: int
    last: int

    def __str__(self) -> str:
        if self.first == self.last:
            return f"`{self.prompt}` at token {self.first}"
        return f"`{self.prompt}` within tokens {self.first} to {self.last}"


def parting(one: Trace, other: Trace) -> Parting | None:
    """None where the engine did not tell its tokens chunk by chunk.

    A chunk of several tokens hides which of them it is; chunks of both sides that end at the same
    token are compared, so that a side with one token a chunk makes it as sharp as the other is.
    """
    ours, theirs = _by_token(one), _by_token(other)
    if ours is None or theirs is None:
        return None
    same = 0
    for token in sorted(ours.keys() & theirs.keys()):
        if ours[token] != theirs[token]:
            return Parting(one.prompt, same + 1, token)
        same = token
    return Parting(one.prompt, same + 1, max(same + 1, min(max(ours), max(theirs))))


def _by_token(trace: Trace) -> dict[int, str] | None:
    """The mark of the text up to a token, by its number."""
    marks = trace.text_marks
    if not marks or len(marks) != _DIGITS * len(trace.chunks):
        return None
    ends = accumulate(chunk.tokens for chunk in trace.chunks)
    return {end: marks[_DIGITS * n : _DIGITS * (n + 1)] for n, end in enumerate(ends)}

"""One answer put together: tokens to text, stop strings, logprobs, and why it ended.

Pure: it is fed arrivals and returns pieces. Token counts are the engine's; a stop string cuts
the text, not the count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ddtree.core.sequence import Finish, Speculation, TokenLogprob
from ddtree.server.inbox import Arrival
from ddtree.server.seam import TokenizerLike
from ddtree.server.speech import Call, Part, Speech
from ddtree.server.stops import StopFinder

TOOL_CALLS = "tool_calls"  # why an answer ended that asks for its calls to be made


@dataclass(frozen=True)
class Named:
    """A token with its bytes; `top` are the most probable ones, most probable first."""

    token: bytes  # may be part of a character
    logprob: float
    offset: int  # characters of the answer before it
    top: tuple[tuple[bytes, float], ...]


class Piece(NamedTuple):
    """What an arrival adds to the answer."""

    text: str
    logprobs: tuple[Named, ...] = ()  # of everything said: text, thought and calls
    finish: str | None = None  # OpenAI's finish_reason
    thought: str = ""
    calls: tuple[Call, ...] = ()


class Choice:
    def __init__(
        self,
        tokenizer: TokenizerLike,
        stops: Sequence[str],
        hidden: frozenset[int],
        speech: Speech | None = None,
        *,
        logprobs: bool = True,
    ) -> None:
        """`logprobs`: whether arrivals may bring some."""
        self._tokenizer = tokenizer
        self._hidden = hidden  # tokens that end the answer and are no part of its text
        self._text = tokenizer.detokenizer()
        self._stops = StopFinder(stops)
        self._speech = speech  # None: all of it is text
        # what most answers are, and most of their steps
        self._plain = not stops and speech is None and not logprobs
        self._decoded = 0  # characters, those held back included
        self._sent = 0
        self._named: deque[Named] = deque()  # logprobs of text that is held back
        self.tokens = 0
        self.reused = 0  # prompt tokens that were in the cache already
        self.speculation = Speculation()
        self.finish: str | None = None

    @property
    def stopped(self) -> bool:
        """The answer ends here, of which the engine knows nothing."""
        heard_enough = self._speech is not None and self._speech.done
        return heard_enough or self._stops.found is not None

    def feed(self, arrival: Arrival) -> Piece:
        self.tokens += len(arrival.tokens)
        self.speculation = arrival.speculation or self.speculation
        self.reused = arrival.reused or self.reused
        if self._plain and arrival.finish is None:
            return Piece(self._text.push(arrival.tokens))
        certain = self._stops.push(self._decode(arrival))
        if self._stops.found is None and arrival.finish is not None:
            certain += self._stops.push(self._text.flush())
            if self._stops.found is None:
                certain += self._stops.flush()
        over = self._stops.found is not None or arrival.finish is not None
        part = self._hear(certain, over=over)
        if self.stopped:
            self.finish = Finish.STOP.value
        elif arrival.finish is not None:
            self.finish = arrival.finish.value
        if self.finish == Finish.STOP.value and self._speech is not None and self._speech.called:
            self.finish = TOOL_CALLS
        self._sent += len(certain)
        return Piece(part.text, self._released(), self.finish, part.thought, part.calls)

    def _hear(self, text: str, *, over: bool) -> Part:
        if self._speech is None:
            return Part(text=text)
        part = self._speech.push(text)
        return part + self._speech.flush() if over else part

    def _decode(self, arrival: Arrival) -> str:
        tokens = arrival.tokens
        if arrival.finish is Finish.STOP and tokens and tokens[-1] in self._hidden:
            tokens = tokens[:-1]
        if not arrival.logprobs:
            return self._text.push(tokens)
        text = ""
        for token, said in zip(tokens, arrival.logprobs, strict=False):
            self._named.append(self._name(token, said))
            new = self._text.push([token])
            self._decoded += len(new)
            text += new
        return text

    def _name(self, token: int, said: TokenLogprob) -> Named:
        of = self._tokenizer.token_bytes
        top = tuple((of(one), logprob) for one, logprob in said.top)
        return Named(of(token), said.logprob, self._decoded, top)

    def _released(self) -> tuple[Named, ...]:
        """Logprobs go out with the text they belong to; those behind a stop string never do."""
        released = []
        complete = self.finish is not None and not self.stopped
        while self._named and (complete or self._named[0].offset < self._sent):
            released.append(self._named.popleft())
        return tuple(released)

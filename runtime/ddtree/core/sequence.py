"""The nouns of the host side: what was asked, and how far it has come. Ints only, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ddtree.config import Mode


class Finish(Enum):
    """Why a request ended; the value is the OpenAI `finish_reason`."""

    STOP = "stop"  # an end-of-sequence token
    LENGTH = "length"  # max_tokens or the context is used up
    ABORT = "abort"  # the client went away, or the server met a stop string
    ERROR = "error"


@dataclass(frozen=True)
class Speculative:
    """What a request asks of speculation; None: as the server was started."""

    mode: Mode | None = None
    budget: int | None = None


@dataclass(frozen=True)
class Sampling:
    """How the target decides the next token. temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all
    min_p: float = 0.0
    seed: int = 0  # equal seeds give equal tokens, at every budget


@dataclass(frozen=True)
class Request:
    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = Sampling()
    stop_token_ids: frozenset[int] = frozenset()
    logprobs: int | None = None  # None: none; k: the chosen token's and the k best
    speculative: Speculative = Speculative()


@dataclass(frozen=True)
class TokenLogprob:
    """Natural log of the target's untempered probability."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Output(NamedTuple):
    """What one engine step brought for one request. `tokens` are new, in order.

    A tuple, for one is made of every row and step: it takes a third of what a frozen class does.
    """

    request_id: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish: Finish | None = None
    error: str | None = None
    speculation: Speculation | None = None  # totals so far
    reused: int = 0  # prompt tokens that were in the cache already


class Speculation(NamedTuple):
    """Counters of one request or of the whole engine since it started.

    accept = 1 + accepted / verify_steps (docs/numbers.md).
    """

    verify_steps: int = 0
    drafted: int = 0  # nodes besides the root that were verified
    accepted: int = 0
    accepted_per_position: tuple[int, ...] = ()  # [d]: steps whose path reached depth d + 1


NOTHING = Speculation()


class Tally:
    """Counts the verify steps of one request, or of all."""

    def __init__(self) -> None:
        self._steps = self._drafted = self._accepted = 0
        self._reached: list[int] = []

    def count(self, *, drafted: int, accepted: int) -> None:
        """One verify step whose path reached depth `accepted`."""
        self._steps += 1
        self._drafted += drafted
        self._accepted += accepted
        reached = self._reached
        if accepted > len(reached):
            reached.extend([0] * (accepted - len(reached)))
        for depth in range(accepted):
            reached[depth] += 1

    @property
    def total(self) -> Speculation:
        if not self._steps:
            return NOTHING
        return Speculation(self._steps, self._drafted, self._accepted, tuple(self._reached))


@dataclass(eq=False)
class Sequence:
    """A request in flight, equal to itself alone. Changed by the scheduler and by `commit` only."""

    request: Request
    tokens: list[int]  # prompt and committed answer; the last one is the root once decoding
    end: int  # tokens it can have at most
    limit: int = 0  # nodes that a step may verify for it, besides the root
    branches: bool = False  # whether those may be more than one path
    row: int | None = None  # batch row, set by the scheduler
    pages: list[int] = field(default_factory=list)  # set by the scheduler
    keys: list[bytes] = field(default_factory=list)  # of its full blocks; set by the scheduler
    reused: int = 0  # prompt tokens that were in the cache when it was first admitted
    cached: int = 0  # positions whose keys and values are in the cache, as the host knows
    admissions: int = 0  # how often it was given a row; set by the scheduler
    on_device: bool = False  # whether the device knows its row; set by the runner
    tally: Tally = field(default_factory=Tally)

    @property
    def answer_length(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def prefill_end(self) -> int:
        """Positions to cache before decoding: the prompt; after a preemption all but the root."""
        return len(self.tokens) - (1 if self.answer_length else 0)

    @property
    def prefilled(self) -> bool:
        """All but the last token are cached: the last one is the root of the next tree."""
        known = len(self.tokens)  # asked of every sequence at every step: no property of others
        return self.cached == known - 1 and known > len(self.request.prompt)

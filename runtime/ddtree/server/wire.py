"""What the server and the engine's process say to each other: pickles down one socket.

A step is one message, and so are the requests of one turn of the loop. Rows of a step are plain
tuples, for a class takes four times as long: 64 rows of `ar` 17 us to write and as much to read.
`marshal` saves half of the one and a third of the other for a token a row, and is slower for
trees; libraries for messages were not worth another dependency.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ddtree.config import ModelShape
from ddtree.core.sequence import NOTHING, Finish, Output, Request, Speculation, TokenLogprob
from ddtree.engine.admission import Limits

_SIZE = 4  # bytes before each message that say how long it is


@dataclass(frozen=True)
class Opened:
    """The engine runs, and is this."""

    shape: ModelShape
    device: str
    dtype: str
    limits: Limits


@dataclass(frozen=True)
class Unable:
    """There will be no engine: a LoadError's words."""

    message: str
    exit_code: int
    hint: str | None


@dataclass(frozen=True)
class Died:
    reason: str


@dataclass(frozen=True)
class Ask:
    """Of the engine: requests to answer, and ids of those that nobody waits for any more."""

    requests: tuple[Request, ...]
    aborted: tuple[str, ...]


@dataclass(frozen=True)
class Look:
    """Asks for an EngineStats."""


@dataclass(frozen=True)
class Stop:
    """End now. What still runs is aborted."""


Row = tuple[Any, ...]  # an Output as it travels; what is missing at the end has its default
Step = tuple[float, list[Row]]  # the engine's clock (monotonic, the same in all processes)


def framed(message: object) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_SIZE, "little") + body


class Frames:
    """Bytes as they come, to whole messages."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        self._held += data
        at, messages = 0, []
        with memoryview(self._held) as view:
            while (begin := at + _SIZE) <= len(view):
                end = begin + int.from_bytes(view[at:begin], "little")
                if end > len(view):
                    break
                messages.append(pickle.loads(view[begin:end]))
                at = end
        del self._held[:at]
        return messages


def step(at: float, outputs: Iterable[Output]) -> Step:
    return at, [_packed(output) for output in outputs]


def output_of(row: Row) -> Output:
    if len(row) == 2:
        return Output(row[0], row[1], speculation=NOTHING)
    request_id, tokens, speculation, logprobs, finish, error, reused = row
    return Output(
        request_id,
        tokens,
        logprobs and tuple(TokenLogprob(*one) for one in logprobs),
        finish and Finish(finish),
        error,
        speculation and Speculation(*speculation),
        reused,
    )


def _packed(output: Output) -> Row:
    request_id, tokens, logprobs, finish, error, speculation, reused = output
    if speculation is NOTHING and finish is None and logprobs is None and not reused:
        return request_id, tokens
    return (
        request_id,
        tokens,
        speculation and tuple(speculation),
        logprobs and tuple((one.token, one.logprob, one.top) for one in logprobs),
        finish and finish.value,
        error,
        reused,
    )

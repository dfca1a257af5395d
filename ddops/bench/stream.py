"""The bytes of one streamed answer, with the time each read came in, turned into a Trace.

Pure: no socket and no clock of its own, so every timing rule is tested with planted times.
Tokens are counted from the engine's own `usage`; nothing is tokenised again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

from ddops.spec.record import Chunk, TokensFrom, Trace

# Reasoning models send their first tokens under one of the last two names.
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning")
_read = json.JSONDecoder().decode  # a third quicker than `json.loads` of bytes


class Transcript:
    """What one request has brought so far. All times are on the caller's monotonic clock."""

    def __init__(self, prompt: str, due: float | None = None) -> None:
        self.prompt = prompt
        self.due = due  # when an open loop meant to send it
        self.sent: float | None = None
        self.ended: float | None = None
        self.lost = False  # the connection broke: the service may be gone
        self.error: str | None = None
        self._rest = b""
        self._pieces: list[str] = []
        self._crc = 0  # of the text so far
        self._arrivals: list[tuple[float, int]] = []  # time, new tokens by running usage
        self._marks: list[int] = []  # of the same arrivals
        self._texts: list[float] = []  # times of chunks that carried text
        self._seen = 0
        self._uncounted = 0  # chunks with text but without usage
        self._final: dict[str, Any] | None = None
        self._finish_reason: str | None = None

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def fail(self, error: str, *, lost: bool = False) -> None:
        """The first error is the cause; what follows it are echoes."""
        if self.error is None:
            self.error, self.lost = error, lost

    def feed(self, data: bytes, at: float) -> None:
        """Everything in one read arrived together, so its chunks share the time `at`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._hear(line[5:].strip(), at)

    def end(self, at: float) -> None:
        """The connection said its last word."""
        self.ended = at
        if self._finish_reason is None:
            self.fail("the stream ended without a finish reason", lost=True)
        elif self._final is None:
            self.fail("the engine sent no usage, so its tokens cannot be counted")

    def trace(self, opened: float) -> Trace:
        """`opened`: when the window opened."""
        sent = self.sent if self.sent is not None else opened
        chunks = tuple(
            Chunk(at=_microseconds(at - sent), tokens=tokens) for at, tokens in self._counted()
        )
        usage = self._final or {}
        return Trace(
            prompt=self.prompt,
            sent=_microseconds(sent - opened),
            due=None if self.due is None else _microseconds(self.due - opened),
            first=chunks[0].at if chunks else None,
            last=chunks[-1].at if chunks else None,
            chunks=chunks,
            tokens_from=self._tokens_from,
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            finish_reason=self._finish_reason,
            text_sha256=hashlib.sha256(self.text.encode()).hexdigest() if self._pieces else None,
            text_marks=self._text_marks if self._tokens_from == "every-chunk" else None,
            error=self.error,
        )

    def _hear(self, payload: bytes, at: float) -> None:
        if payload == b"[DONE]":
            return
        try:
            event = _read(payload.decode())
        except ValueError:
            self.fail(f"a chunk is not JSON: {payload[:80]!r}")
            return
        if "error" in event:
            self.fail(f"the engine sent an error: {_message_of(event['error'])}")
            return
        usage = event.get("usage")
        for choice in event.get("choices") or ():
            self._listen(choice, at, counted=usage is not None)
        if usage is not None:
            self._count(usage, at)

    def _listen(self, choice: dict[str, Any], at: float, *, counted: bool) -> None:
        delta = choice.get("delta") or {}
        if piece := "".join([delta.get(name) or "" for name in _TEXT_FIELDS]):
            self._pieces.append(piece)
            self._crc = zlib.crc32(piece.encode(), self._crc)
            self._texts.append(at)
            self._uncounted += not counted
        self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def _count(self, usage: dict[str, Any], at: float) -> None:
        self._final = usage
        if (new := usage["completion_tokens"] - self._seen) > 0:
            self._arrivals.append((at, new))
            self._marks.append(self._crc & 0xFFFF)
            self._seen += new

    @property
    def _tokens_from(self) -> TokensFrom:
        """Usage that comes once, with or after the last chunk, says nothing about the others."""
        if self._final is None:
            return "nothing"
        return "final-usage" if self._uncounted else "every-chunk"

    @property
    def _text_marks(self) -> str:
        return "".join([f"{mark:04x}" for mark in self._marks])

    def _counted(self) -> list[tuple[float, int]]:
        if self._tokens_from == "final-usage":
            return _shared_out(self._seen, self._texts)
        return self._arrivals


def _microseconds(seconds: float) -> float:
    """No client sees finer; a record with shorter numbers is half as large."""
    return round(seconds, 6)


def _shared_out(total: int, times: list[float]) -> list[tuple[float, int]]:
    """`total` tokens over the chunks, as evenly as whole numbers allow."""
    count = len(times)
    shares = [total * (i + 1) // count - total * i // count for i in range(count)]
    return [(at, share) for at, share in zip(times, shares, strict=True) if share]


def _message_of(error: object) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)

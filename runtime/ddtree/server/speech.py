"""Tells thoughts, text and tool calls apart in an answer that arrives in pieces.

What comes out depends on the text alone, never on where the pieces end. Nothing is lost: what
looked like a call and is none is text, markers included. A call comes out when it is complete,
because only then is it known to be one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Literal

from ddtree.server.dialect import PLAIN, Calls, Dialect

SPACE = " \t\r\n"
_CALL_ID = re.compile(r"\s*((?:functions\.)?([\w.-]+):\d+)\s*")


@dataclass(frozen=True)
class Call:
    index: int  # among the calls of one answer
    id: str
    name: str
    arguments: str  # JSON: an object


@dataclass(frozen=True)
class Part:
    """What a piece of text turned out to be."""

    thought: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()

    def __add__(self, other: Part) -> Part:
        return Part(self.thought + other.thought, self.text + other.text, self.calls + other.calls)


NOTHING = Part()


@dataclass(frozen=True)
class Hearing:
    """What is to be told apart in the answers to one request."""

    dialect: Dialect
    thinking: bool = False  # the prompt has opened a thought
    calling: bool = False  # the request brought tools
    single: bool = False  # the first call is the end


PLAINLY = Hearing(PLAIN)


class Speech:
    def __init__(self, hearing: Hearing, name: str) -> None:
        """`name` makes the ids of calls that bring none."""
        self._thoughts = hearing.dialect.thoughts
        self._calls = hearing.dialect.calls if hearing.calling else None
        self._single = hearing.single
        self._name = name
        self._held = ""
        self._opening = ""  # what a call that is being written began with
        self._state: Literal["start", "thought", "text", "call"]
        self._state = "thought" if hearing.thinking and self._thoughts else "start"
        self._skip = self._thoughts.frame if self._thoughts and hearing.thinking else ""
        self.called = 0

    @property
    def done(self) -> bool:
        """Nothing that comes now is wanted."""
        return self._single and self.called > 0

    def push(self, text: str) -> Part:
        self._held += text
        said = NOTHING
        while not self.done and (part := self._next()) is not None:
            said += part
        return said

    def flush(self) -> Part:
        """The text is over: what was held back is what it looks like now."""
        rest, self._held = self._held, ""
        if self.done:
            return NOTHING
        if self._state == "call":
            self._state = "text"
            call = self._read(rest)
            return Part(text=self._opening + rest) if call is None else Part(calls=(call,))
        return Part(thought=rest) if self._state == "thought" else Part(text=rest)

    def _next(self) -> Part | None:
        """One part of what is held; None when more text is needed to go on."""
        if self._state == "start":
            return self._start()
        if self._state == "call":
            return self._call()
        return self._run()

    def _start(self) -> Part | None:
        """An answer may begin with a thought; the same marker later is text."""
        begin = self._thoughts.begin if self._thoughts else ""
        ahead = self._held.lstrip(SPACE)
        if begin and ahead.startswith(begin):
            self._held = ahead.removeprefix(begin)
            self._state, self._skip = "thought", self._thoughts.frame if self._thoughts else ""
        elif begin and begin.startswith(ahead):
            return None
        else:
            self._state = "text"
        return NOTHING

    def _run(self) -> Part | None:
        """Thought or text up to the next marker, or as far as it is certain that none begins."""
        if self._skip and self._held:
            self._held = self._held.lstrip(self._skip)
            self._skip = "" if self._held else self._skip
        markers = self._markers()
        hits = [(at, marker) for marker in markers if (at := self._held.find(marker)) >= 0]
        if hits:
            return self._meet(*min(hits))
        sure = len(self._held) - _doubtful(self._held, markers)
        certain = self._held[:sure].rstrip(self._frame) if self._frame else self._held[:sure]
        if not certain:
            return None
        self._held = self._held[len(certain) :]
        return self._said(certain)

    @property
    def _frame(self) -> str:
        """What may stand before the next marker and is then no part of what is said."""
        if self._state == "thought":
            return self._thoughts.frame if self._thoughts else ""
        return self._calls.frame if self._calls else ""

    def _said(self, text: str) -> Part:
        return Part(thought=text) if self._state == "thought" else Part(text=text)

    def _markers(self) -> tuple[str, ...]:
        calls = self._calls
        of_calls = (calls.begin, *calls.around) if calls else ()
        if self._state != "thought" or self._thoughts is None:
            return of_calls
        return (self._thoughts.end, *(of_calls if calls and calls.end_thoughts else ()))

    def _meet(self, at: int, marker: str) -> Part:
        written, self._held = self._held[:at], self._held[at + len(marker) :]
        before = written.rstrip(self._frame) if self._frame else written
        said = self._said(before)
        if self._thoughts is not None and marker == self._thoughts.end:
            self._state, self._skip = "text", self._thoughts.frame
        elif self._calls is not None and marker == self._calls.begin:
            self._state, self._opening = "call", written[len(before) :] + marker
        else:
            self._state, self._skip = "text", SPACE
        return said

    def _call(self) -> Part | None:
        assert self._calls is not None, "a call was begun that nobody looks for"
        body, end, rest = self._held.partition(self._calls.end)
        if not end:
            return None
        self._held, self._state = rest, "text"
        call = self._read(body)
        if call is None:
            return Part(text=self._opening + body + end)
        self._skip = SPACE
        return Part(calls=(call,))

    def _read(self, body: str) -> Call | None:
        assert self._calls is not None, "a call was begun that nobody looks for"
        call = read_call(body, self._calls)
        if call is None:
            return None
        call = replace(call, index=self.called, id=call.id or f"call-{self._name}-{self.called}")
        self.called += 1
        return call


def read_call(body: str, calls: Calls) -> Call | None:
    """The call that stands between the markers; None when it is none."""
    if calls.inner is not None:
        head, inner, arguments = body.partition(calls.inner)
        named = _CALL_ID.fullmatch(head)
        if not inner or named is None or not isinstance(_json(arguments), dict):
            return None
        return Call(0, named[1], named[2], arguments.strip() or "{}")
    said = _json(body)
    if not isinstance(said, dict) or not isinstance(name := said.get("name"), str) or not name:
        return None
    given = said.get("arguments", {})
    given = _json(given) if isinstance(given, str) else given
    if not isinstance(given, dict):
        return None
    return Call(0, "", name, json.dumps(given, ensure_ascii=False))


def _json(text: str) -> object:
    """What the text says; None where it is no JSON that can be sent on. Nothing is no arguments."""
    try:
        said = json.loads(text) if text.strip() else {}
        json.dumps(said, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return said


def _doubtful(text: str, markers: tuple[str, ...]) -> int:
    """Length of the longest end of the text that begins a marker."""
    longest = min(len(text), max((len(marker) for marker in markers), default=1) - 1)
    for length in range(longest, 0, -1):
        if any(marker.startswith(text[-length:]) for marker in markers):
            return length
    return 0

"""What the target is asked: plain text, made from a grammar and a seed. No torch.

A tenth of the actions and of the topics is kept for the held-out prompts. Hand-written prompts are
only ever held out.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

Kind = Literal["code", "question"]
HELD_OUT_TENTH = 0  # of zlib.crc32(word) % 10
SILENT = 5  # users, of whom one begins with words of his own
MARK = "\N{WHITE SQUARE}"  # stands for a user's words in a chat that is cut in two


class Texts(Protocol):
    """What the recipe needs of a tokenizer and a chat template."""

    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: list[int]) -> str: ...
    def render(self, user: str) -> str:
        """A chat of one message of a user, up to where the answer begins."""

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer, and a user's turn."""


@dataclass(frozen=True)
class Frame:
    """A chat around the words of a user."""

    before: str
    after: str


def frame_of(texts: Texts) -> Frame:
    """Raises ValueError when the chat template changes or drops what a user says."""
    before, mark, after = texts.render(MARK).partition(MARK)
    if not mark:
        raise ValueError("the chat template does not show the user's message as it is")
    return Frame(before, after)


def generated(kind: Kind, seed: int, *, held_out: bool) -> Iterator[str]:
    """An endless stream of prompts; equal seeds give equal streams."""
    grammar, chance = _grammar(), random.Random(f"{kind} {seed} {held_out}")
    make = {"code": _code, "question": _question}[kind]
    key = {"code": "actions", "question": "topics"}[kind]
    words = [w for w in grammar[key] if (zlib.crc32(w.encode()) % 10 == HELD_OUT_TENTH) == held_out]
    while True:
        yield make(chance, words)


def distinct(stream: Iterator[str], count: int) -> list[str]:
    """The first `count` different ones."""
    seen: dict[str, None] = {}
    for text in stream:
        seen.setdefault(text)
        if len(seen) == count:
            break
    return list(seen)


def hand_written() -> dict[str, list[str]]:
    """`hand code` and `hand chat`."""
    document = json.loads(Path(__file__).with_name("hand.json").read_text(encoding="utf-8"))
    return {f"hand {kind}": document[kind] for kind in ("code", "chat")}


def all_hand_written() -> set[str]:
    return {text for texts in hand_written().values() for text in texts}


def openers() -> list[str]:
    """How a user may begin: mostly some words, nothing at all for one in SILENT."""
    words = _grammar()["openers"]
    return words + [""] * (len(words) // (SILENT - 1))


def mixed(
    sources: dict[str, Callable[[], str]], shares: dict[str, float], seed: int
) -> Iterator[str]:
    """Prompts from several sources, each as often as its share says."""
    chance = random.Random(f"mix {seed}")
    names = list(sources)
    weights = [shares[name] for name in names]
    while True:
        yield sources[chance.choices(names, weights)[0]]()


def _code(chance: random.Random, actions: list[str]) -> str:
    grammar = _grammar()
    template = chance.choice(grammar["code_templates"])
    return template.format(action=chance.choice(actions), thing=chance.choice(grammar["things"]))


def _question(chance: random.Random, topics: list[str]) -> str:
    template = chance.choice(_grammar()["question_templates"])
    topic, other = chance.sample(topics, 2)
    return template.format(topic=topic, other=other)


@cache
def _grammar() -> dict[str, list[str]]:
    text = Path(__file__).with_name("grammar.json").read_text(encoding="utf-8")
    grammar: dict[str, list[str]] = json.loads(text)
    return grammar

"""Takes secrets, people and their folders out of text, and says how often, never what. Pure.

Works on the text of files, so a secret is found wherever it stands: in a value, a key, a log.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

_SHORTEST_SECRET: Final = 8
_SHORTEST_NAME: Final = 4
_NO_NAMES: Final = frozenset({"root", "user", "admin", "ubuntu", "debian", "runner", "localhost"})
_SAFE: Final = r"[^\s\"'\\<>]"  # never eats the quote that ends a JSON string

PATTERNS: Final = {
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\"))",
    "token": r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|nvapi-)[\w-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}",
    "authorization": rf"(?i)(?<=bearer )(?!<){_SAFE}{{6,}}|(?<=basic )[A-Za-z0-9+/]{{12,}}={{0,2}}",
    "password in a URL": rf"(?<=://){_SAFE}+?:{_SAFE}+?(?=@)",
    "signature in a URL": r"(?i)(?<=signature=)[^\s\"'\\&<>]+|(?<=x-amz-credential=)[^\s\"'\\&<>]+",
    "assigned secret": r"(?i)(?<=api_key=)(?!<)[^\s\"'\\<>]{6,}|(?<=token=)(?!<)[^\s\"'\\<>]{6,}"
    r"|(?<=password=)(?!<)[^\s\"'\\<>]{6,}",
    "home": r"(?<![\w.])/(?:home|Users)/(?!USER\b)[\w.@-]+",
}
"""What gives itself away by its shape."""

_INSTEAD: Final = {"home": "/home/USER", "user": "USER", "host": "HOST"}


@dataclass(frozen=True)
class Known:
    """What this machine knows to be private: values of secrets, names of people and machines."""

    secrets: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()  # those that do not lie where homes usually lie
    vocabulary: frozenset[str] = frozenset()  # words that stay even if somebody has that name


@dataclass(frozen=True)
class Redacted:
    text: str
    counts: dict[str, int]  # by kind


def redact(text: str, known: Known) -> Redacted:
    counts: Counter[str] = Counter()
    for kind, pattern in _rules(known):
        instead = _INSTEAD.get(kind, f"<redacted: {kind}>")
        text, count = pattern.subn(instead, text)
        counts[kind] += count
    return Redacted(text, {kind: count for kind, count in counts.items() if count})


def _rules(known: Known) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The known secrets first: a pattern might take a part of one and leave the rest."""
    for secret in sorted(_spellings(known.secrets), key=len, reverse=True):
        yield "secret", re.compile(re.escape(secret))
    for home in known.homes:
        yield "home", re.compile(rf"(?<![\w.]){re.escape(home.rstrip('/'))}(?![\w.-])")
    for kind, pattern in PATTERNS.items():
        yield kind, re.compile(pattern, re.DOTALL)
    for kind, names in (("user", known.users), ("host", known.hosts)):
        for name in _distinct(names, known.vocabulary):
            yield kind, re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _spellings(secrets: Iterable[str]) -> set[str]:
    """A secret as it is, as JSON escapes it, as a URL does. Bare numbers are everywhere."""
    long = [s for s in secrets if len(s) >= _SHORTEST_SECRET and not s.isdigit()]
    return {form for s in long for form in (s, json.dumps(s)[1:-1], quote(s, safe=""))}


def _distinct(names: Iterable[str], vocabulary: frozenset[str]) -> list[str]:
    """A machine called `model` is not taken out of every sentence about a model."""
    return sorted(
        {name for name in names if len(name) >= _SHORTEST_NAME and name not in _NO_NAMES}
        - vocabulary
    )

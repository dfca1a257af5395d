"""Takes secrets, people and their folders out of text, and says how often, never what. Pure.

Works on the text of files, so a secret is found wherever it stands: in a value, a key, a log.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

_SHORTEST_SECRET: Final = 8
_SHORTEST_NAME: Final = 4
_NO_NAMES: Final = frozenset({"root", "user", "admin", "ubuntu", "debian", "runner", "localhost"})
_SAFE: Final = r"[^\s\"'\\<>]"  # never eats the quote that ends a JSON string


@dataclass(frozen=True)
class Pattern:
    """What gives itself away by its shape; without one of `hints` in a text it is not there.

    A group of the shape, if it has one, is the label before it, and stays.
    """

    kind: str
    hints: tuple[str, ...]  # in lower case
    shape: str


_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4: Final = rf"(?!127\.|0\.0\.0\.0\b){_OCTET}(?:\.{_OCTET}){{3}}"
PATTERNS: Final = (
    Pattern(
        "private key",
        ("private key",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\"))",
    ),
    Pattern(
        "token",
        ("hf_", "sk-", "gh", "glpat-", "xox", "nvapi-", "akia", "eyj"),
        r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|nvapi-)[\w-]{16,}"
        r"|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}",
    ),
    Pattern(
        "authorization",
        ("bearer ", "basic "),
        rf"(?i)(?<=bearer )(?!<){_SAFE}{{6,}}|(?<=basic )[A-Za-z0-9+/]{{12,}}={{0,2}}",
    ),
    Pattern("password in a URL", ("://",), rf"(?<=://){_SAFE}+?:{_SAFE}+?(?=@)"),
    Pattern(
        "signature in a URL",
        ("signature=", "credential="),
        r"(?i)(?<=signature=)[^\s\"'\\&<>]+|(?<=x-amz-credential=)[^\s\"'\\&<>]+",
    ),
    Pattern(
        "assigned secret",
        ("api_key=", "token=", "password="),
        # `tiktoken==0.13.0` is a package of a lock
        r"(?i)(?:(?<=api_key=)|(?<=token=)|(?<=password=))(?![<=])[^\s\"'\\<>]{6,}",
    ),
    # Which piece it is: whoever rents that GPU next sees the same.
    Pattern(
        "GPU", ("serial number", "gpu pdi"), r"(Serial Number +: |GPU PDI +: )(?:0x)?[\da-f]{6,}"
    ),
    Pattern("GPU", ("gpu-", "mig-"), r"\b(GPU-|MIG-)[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b"),
    Pattern("home", ("/home/", "/users/"), r"(?<![\w.])/(?:home|Users)/(?!USER\b)[\w.@-]+"),
    # Four numbers alone may be a version: it takes a scheme, a user, a port or a mask beside them.
    # `pkg:pypi/nvidia-cublas@13.1.0.3` is a package of a bill of materials.
    Pattern("address", ("@",), rf"(?<![\w.-])(?<!pkg:pypi/)([\w.-]+@){_IPV4}(?![\w.])"),
    Pattern("address", ("//",), rf"(?<=//){_IPV4}(?![\w.])"),
    Pattern("address", (":", "/"), rf"(?<![\w.]){_IPV4}(?=:\d{{2,5}}\b|/\d{{1,2}}\b)"),
)

_INSTEAD: Final = {"home": "/home/USER", "user": "USER", "host": "HOST", "address": "ADDRESS"}


@dataclass(frozen=True)
class Known:
    """What this machine knows to be private: values of secrets, names of people and machines."""

    secrets: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()  # those that do not lie where homes usually lie
    vocabulary: frozenset[str] = frozenset()  # words that stay even if somebody has that name


@dataclass(frozen=True)
class Redacted:
    text: str
    counts: dict[str, int]  # by kind


@dataclass(frozen=True)
class _Rule:
    kind: str
    hints: tuple[str, ...]
    shape: re.Pattern[str]

    def may_apply(self, text: str, lower: str) -> bool:
        return any(hint in lower or hint in text for hint in self.hints)


def redact(text: str, known: Known) -> Redacted:
    counts: Counter[str] = Counter()
    lower = text.lower()
    for rule in _rules(known):
        if rule.may_apply(text, lower):
            instead = _INSTEAD.get(rule.kind, f"<redacted: {rule.kind}>")
            label = r"\1" if rule.shape.groups else ""
            text, count = rule.shape.subn(label + instead, text)
            counts[rule.kind] += count
    return Redacted(text, {kind: count for kind, count in counts.items() if count})


@lru_cache(maxsize=8)
def _rules(known: Known) -> tuple[_Rule, ...]:
    """The known secrets first: a pattern might take a part of one and leave the rest."""
    return tuple(_listed(known))


def _listed(known: Known) -> Iterator[_Rule]:
    for secret in sorted(_spellings(known.secrets), key=len, reverse=True):
        yield _Rule("secret", (secret,), re.compile(re.escape(secret)))
    for home in (home.rstrip("/") for home in known.homes):
        yield _Rule("home", (home,), re.compile(rf"(?<![\w.]){re.escape(home)}(?![\w.-])"))
    for pattern in PATTERNS:
        yield _Rule(pattern.kind, pattern.hints, re.compile(pattern.shape, re.DOTALL))
    for kind, names in (("user", known.users), ("host", known.hosts)):
        for name in _distinct(names, known.vocabulary):
            yield _Rule(kind, (name,), re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"))
    for address in sorted(set(known.addresses), key=len, reverse=True):
        shape = re.compile(rf"(?<![\w.:]){re.escape(address)}(?![\w.]|:[0-9a-f]*:)")
        yield _Rule("address", (address,), shape)


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

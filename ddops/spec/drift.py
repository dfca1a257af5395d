"""Where a box is not what it should be."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

Subject = Literal[
    "deployment", "unit", "secrets", "process", "python", "package", "weights", "driver"
]


class Drift(Word):
    """`wanted` and `there` are words for people; secrets are not among them."""

    subject: Subject
    what: str  # which key, line, package, file or argument
    wanted: str
    there: str

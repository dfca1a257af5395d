"""Where a box is not what it should be, or one bundle not what another is."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

Subject = Literal[
    "deployment",
    "unit",
    "secrets",
    "process",
    "python",
    "package",
    "weights",
    "driver",
    "ddops",
    "box",
    "model",
    "engine",
    "matrix",
    "result",
]


class Drift(Word):
    """`wanted` and `there` are words for people; secrets are not among them.

    Of two bundles the first is what is wanted.
    """

    subject: Subject
    what: str  # which key, line, package, file or argument
    wanted: str
    there: str

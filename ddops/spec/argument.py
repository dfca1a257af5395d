"""One word of an engine's command line or environment, with the reason it is there."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

Sure = Literal["asked", "measured", "documented", "reported", "reasoned"]
"""How a reason is known: the inventory says so; somebody measured it (the source names who);
the engine's own source or manual; a public report; arithmetic or analogy, not tried."""


class Reason(Word):
    why: str
    source: str = "inventory"
    sure: Sure = "asked"
    rule: str | None = None  # of the table; None: it stands in the inventory


class Argument(Reason):
    flag: str  # empty for a word without one
    value: str = ""  # empty for a switch


class Setting(Reason):
    """A variable of the service's environment."""

    name: str
    value: str
